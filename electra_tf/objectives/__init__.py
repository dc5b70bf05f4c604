"""The pre-training objectives, one module each.

An objective says which parts the model needs, composes the model's shared steps
into losses, and names its metrics. To add one, write its module and list it in
`OBJECTIVES`.
"""

from electra_tf.config import PretrainingConfig
from electra_tf.objectives.electra import ReplacedTokenDetection, UniformReplacedTokenDetection
from electra_tf.objectives.mlm import MaskedLanguageModel
from electra_tf.objectives.objective import Objective

OBJECTIVES: tuple[type[Objective], ...] = (
    MaskedLanguageModel,
    UniformReplacedTokenDetection,
    ReplacedTokenDetection,
)


def get(config: PretrainingConfig) -> Objective:
    """Returns the objective that the configuration selects."""
    return next(objective(config) for objective in OBJECTIVES if objective.selected_by(config))
