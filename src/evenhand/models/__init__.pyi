from .additive.network import AdditiveNetwork, network_from_dense
from .blackbox.text_model import TextModel, load_text_model
from .load import load_model, load_regressor
from .replies import QuestionLedger
from .scorer import Scorer, favourable_score, predict_labels
from .subject import Subject
from .thresholds import ThresholdScorer
from .trees.ensemble import TreeEnsemble, build_ensemble
from .trees.nodes import DecisionTree
from .white_box import extract_white_box, load_white_box

__all__ = [
    "AdditiveNetwork",
    "DecisionTree",
    "QuestionLedger",
    "Scorer",
    "Subject",
    "TextModel",
    "ThresholdScorer",
    "TreeEnsemble",
    "build_ensemble",
    "extract_white_box",
    "favourable_score",
    "load_model",
    "load_regressor",
    "load_text_model",
    "load_white_box",
    "network_from_dense",
    "predict_labels",
]
