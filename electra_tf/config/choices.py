"""What is trained, how it is masked and what is shared, in our names and the authors'.

The authors' flags are booleans that exclude each other; ours are one flag for each question.
Both are kept in agreement, so that either may be given and read.
"""

import pkgutil
from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import UserError

ELECTRA, ELECTRIC, MLM = "electra", "electric", "mlm"
MASKED_LM, TWO_TOWER, UNIFORM, UNIGRAM = "masked_lm", "two_tower", "uniform", "unigram"
# Of the two models' embeddings: nothing, the words, all tables and their normalization (the
# authors' default), all weights of the two models, or DeBERTaV3's disentangled sharing.
SHARE_NONE, SHARE_TOKEN, SHARE_EMBEDDINGS = "none", "token", "embeddings"
SHARE_ALL, SHARE_GDES = "all", "gdes"

# Each choice of a flag, and the "module:name" that implements it; `load` imports it. A new
# objective or masking strategy is a file and a line here.
OBJECTIVES = {
    "adversarial": "electra_tf.objectives.adversarial:Adversarial",
    "all_tokens_mlm": "electra_tf.objectives.all_tokens_mlm:AllTokensMLM",
    "electra": "electra_tf.objectives.electra:ReplacedTokenDetection",
    "electra_15": "electra_tf.objectives.electra_15:MaskedTokensDetection",
    "electric": "electra_tf.objectives.electric:NoiseContrastiveCloze",
    "mlm": "electra_tf.objectives.mlm:MaskedLanguageModel",
    "replace_mlm": "electra_tf.objectives.replace_mlm:ReplaceMLM",
    "sentence_contrastive": "electra_tf.objectives.sentence_contrastive:SentenceContrastive",
    "two_stage": "electra_tf.objectives.two_stage:TwoStage",
}
MASKING = {
    "span": "electra_tf.masking.span:SpanMasking",
    "strategic": "electra_tf.masking.strategic:StrategicMasking",
    "token": "electra_tf.masking.token:TokenMasking",
    "whole_word": "electra_tf.masking.whole_word:WholeWordMasking",
}
GENERATOR_TYPES = (MASKED_LM, TWO_TOWER, UNIFORM, UNIGRAM)
EMBEDDING_SHARING = (SHARE_NONE, SHARE_TOKEN, SHARE_EMBEDDINGS, SHARE_ALL, SHARE_GDES)


def load(table: Mapping[str, str], name: str) -> Any:
    """Returns the object that `table` gives as "module:name" for a choice.

    Raises:
        ImportError, AttributeError: the table names something that does not exist.
    """
    return pkgutil.resolve_name(table[name])


def resolve_choices(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns each choice under our name and under the authors'.

    Args:
        given: hyperparameters that were given, by name; ours win where both are and agree.

    Raises:
        UserError: two of them ask for different things.
    """
    objective = _choose(
        given,
        "objective",
        [
            ("electric_objective", True, ELECTRIC),
            ("electra_objective", False, MLM),
        ],
        ELECTRA,
        # The authors' Electric takes either value of electra_objective.
        agreeing={("electra_objective", False): (MLM, ELECTRIC)},
    )
    generator = _choose(
        given,
        "generator_type",
        [("uniform_generator", True, UNIFORM), ("two_tower_generator", True, TWO_TOWER)],
        TWO_TOWER if objective == ELECTRIC else MASKED_LM,
    )
    sharing = _choose(
        given,
        "embedding_sharing",
        [
            ("untied_generator", False, SHARE_ALL),
            ("untied_generator_embeddings", True, SHARE_NONE),
        ],
        SHARE_EMBEDDINGS,
    )
    if objective == MLM and generator != MASKED_LM:
        raise UserError(
            f"--generator_type={generator} (or --{generator}_generator), but a masked language "
            "model has no generator: choose another --objective"
        )
    if objective == ELECTRIC and generator != TWO_TOWER:
        raise UserError(
            f"--generator_type={generator}, but the Electric objective needs the probabilities "
            "of a two_tower generator"
        )
    if generator != MASKED_LM and sharing == SHARE_ALL:
        raise UserError(
            f"--generator_type={generator} (or --{generator}_generator) cannot be one model "
            "with the discriminator: that is --embedding_sharing=all, --untied_generator=false "
            "in the authors' words"
        )
    if sharing in (SHARE_TOKEN, SHARE_GDES) and (objective == MLM or generator != MASKED_LM):
        raise UserError(
            f"--embedding_sharing={sharing} is for a masked_lm generator beside the "
            f"discriminator, which --objective={objective} with --generator_type={generator} "
            "has not"
        )
    return {
        "objective": objective,
        "electric_objective": objective == ELECTRIC,
        "electra_objective": objective not in (MLM, ELECTRIC),
        "generator_type": generator,
        "uniform_generator": generator == UNIFORM,
        "two_tower_generator": generator == TWO_TOWER,
        "embedding_sharing": sharing,
        "untied_generator": sharing != SHARE_ALL,
        "untied_generator_embeddings": sharing == SHARE_NONE,
    }


def _choose(
    given: Mapping[str, Any],
    name: str,
    synonyms: list[tuple[str, bool, str]],
    default: str,
    agreeing: Mapping[tuple[str, bool], tuple[str, ...]] | None = None,
) -> str:
    """Returns what `name` or else the first synonym that is set asks for.

    Args:
        given: hyperparameters.
        name: of our flag.
        synonyms: the authors' flag, the value that asks for something, and what for.
        default: where nothing is asked for.
        agreeing: what may be chosen beside a synonym, if not that alone.
    """
    asked = [
        (
            f"--{flag}={str(value).lower()}",
            choice,
            (agreeing or {}).get((flag, value), (choice,)),
        )
        for flag, value, choice in synonyms
        if given.get(flag) is value
    ]
    chosen = given.get(name)
    source = f"--{name}={chosen}"
    if chosen is None:
        source, chosen, _ = asked[0] if asked else ("", default, ())
    for flag, _, allowed in asked:
        if chosen not in allowed:
            raise UserError(f"{source} and {flag} ask for different things: give one of them")
    return chosen
