"""What can be asked of a model, and how any model becomes something that can be asked."""

from evenhand.models.additive.cells import (
    Cell,
    ListedCell,
    RampCell,
    evaluate_cell,
    first_true,
    is_listed,
    plain_inputs,
)
from evenhand.models.additive.network import (
    AdditiveNetwork,
    AffineLayer,
    AttributeTerm,
    CurveTerm,
    LineTerm,
    StepTerm,
    TableTerm,
    binary_labels,
    network_fingerprint,
    network_from_dense,
    plain_line,
)
from evenhand.models.blackbox.estimator import EstimatorModel, wrap_estimator
from evenhand.models.blackbox.function import import_object, remember_answers
from evenhand.models.blackbox.questions import model_input, plain_numbers, summarize_error
from evenhand.models.blackbox.text_model import (
    TextAnswers,
    TextFlip,
    TextModel,
    check_texts,
    interpret_replies,
    load_text_model,
    reads_texts,
)
from evenhand.models.blackbox.torch_module import TorchModule, evaluation_mode, input_type
from evenhand.models.language.answer_store import AnswerStore, question_key
from evenhand.models.language.answers import ChatOutcome, ModelReply
from evenhand.models.language.budget import Spent
from evenhand.models.language.file import ScreeningFile, read_screening_file
from evenhand.models.language.model import CallForecast, ChatQuestion, LanguageModel
from evenhand.models.language.prompts import Prompt
from evenhand.models.ledger import CountedScorer, QuestionLedger, answers_per_row, ask_model, ask_people, find_ledger
from evenhand.models.load import OBJECT_LOADERS, load_model, load_regressor, load_stored_object, open_model
from evenhand.models.noise import (
    CHECKED,
    FreshScorer,
    NoiseCheck,
    RepeatCheck,
    can_vary,
    check_noise,
    repeat_questions,
)
from evenhand.models.outputs import FIRST_QUESTIONS, OutputKind
from evenhand.models.readers.boosters import read_booster
from evenhand.models.readers.keras_file import KerasLayer, network_from_layers, read_keras_layers
from evenhand.models.readers.onnx_graph import read_onnx
from evenhand.models.regressor import Regressor, ask_numbers
from evenhand.models.replies import Reply, same_label
from evenhand.models.scorer import (
    BATCH_ROWS,
    Scorer,
    WrappedScorer,
    ask_in_batches,
    ask_once,
    change_templates,
    favourable_score,
    find_caution,
    predict_labels,
)
from evenhand.models.subject import Subject
from evenhand.models.thresholds import ThresholdScorer
from evenhand.models.trees.columns import match_columns
from evenhand.models.trees.ensemble import (
    ZERO_THRESHOLD,
    TreeEnsemble,
    build_ensemble,
    ensemble_fingerprint,
    goes_left,
)
from evenhand.models.trees.nodes import DecisionTree, TreeNodes
from evenhand.models.white_box import extract_white_box, load_white_box

__all__ = [
    "BATCH_ROWS",
    "CHECKED",
    "FIRST_QUESTIONS",
    "OBJECT_LOADERS",
    "ZERO_THRESHOLD",
    "AdditiveNetwork",
    "AffineLayer",
    "AnswerStore",
    "AttributeTerm",
    "CallForecast",
    "Cell",
    "ChatOutcome",
    "ChatQuestion",
    "CountedScorer",
    "CurveTerm",
    "DecisionTree",
    "EstimatorModel",
    "FreshScorer",
    "KerasLayer",
    "LanguageModel",
    "LineTerm",
    "ListedCell",
    "ModelReply",
    "NoiseCheck",
    "OutputKind",
    "Prompt",
    "QuestionLedger",
    "RampCell",
    "Regressor",
    "RepeatCheck",
    "Reply",
    "Scorer",
    "ScreeningFile",
    "Spent",
    "StepTerm",
    "Subject",
    "TableTerm",
    "TextAnswers",
    "TextFlip",
    "TextModel",
    "ThresholdScorer",
    "TorchModule",
    "TreeEnsemble",
    "TreeNodes",
    "WrappedScorer",
    "answers_per_row",
    "ask_in_batches",
    "ask_model",
    "ask_numbers",
    "ask_once",
    "ask_people",
    "binary_labels",
    "build_ensemble",
    "can_vary",
    "change_templates",
    "check_noise",
    "check_texts",
    "ensemble_fingerprint",
    "evaluate_cell",
    "evaluation_mode",
    "extract_white_box",
    "favourable_score",
    "find_caution",
    "find_ledger",
    "first_true",
    "goes_left",
    "import_object",
    "input_type",
    "interpret_replies",
    "is_listed",
    "load_model",
    "load_regressor",
    "load_stored_object",
    "load_text_model",
    "load_white_box",
    "match_columns",
    "model_input",
    "network_fingerprint",
    "network_from_dense",
    "network_from_layers",
    "open_model",
    "plain_inputs",
    "plain_line",
    "plain_numbers",
    "predict_labels",
    "question_key",
    "read_booster",
    "read_keras_layers",
    "read_onnx",
    "read_screening_file",
    "reads_texts",
    "remember_answers",
    "repeat_questions",
    "same_label",
    "summarize_error",
    "wrap_estimator",
]
