from .policy.file import load_policy, save_policy
from .policy.periodic import PeriodicShield, always_ends_fair
from .policy.policy import ACCEPT, REJECT, ShieldPolicy
from .runtime.certificate import ShieldCertificate
from .runtime.log import ShieldReplay, read_log, replay_log
from .runtime.shield import Shield
from .simulation.comparison import ShieldComparisonResult, compare_shields
from .simulation.inspection import inspect_policy
from .simulation.result import ShieldSimulationResult
from .simulation.simulate import ShieldRunsConfig, simulate_runs, simulate_shield
from .simulation.streams import source_from_people
from .spec.configuration import read_plan
from .spec.plan import Inputs, PlanKind, ShieldPlan
from .spec.properties import EmptyGroupRule, FairnessProperty
from .synthesis.plans import synthesize
from .synthesis.separable import synthesize_separable
from .synthesis.solve import SynthesisProblem, solve_problem

__all__ = [
    "ACCEPT",
    "REJECT",
    "EmptyGroupRule",
    "FairnessProperty",
    "Inputs",
    "PeriodicShield",
    "PlanKind",
    "Shield",
    "ShieldCertificate",
    "ShieldComparisonResult",
    "ShieldPlan",
    "ShieldPolicy",
    "ShieldReplay",
    "ShieldRunsConfig",
    "ShieldSimulationResult",
    "SynthesisProblem",
    "always_ends_fair",
    "compare_shields",
    "inspect_policy",
    "load_policy",
    "read_log",
    "read_plan",
    "replay_log",
    "save_policy",
    "simulate_runs",
    "simulate_shield",
    "solve_problem",
    "source_from_people",
    "synthesize",
    "synthesize_separable",
]
