"""Objectives, masking strategies, generators and weight sharing: registries and flags.

The authors' flags are mutually exclusive booleans; ours are one enum per choice. Both are
kept consistent, so either can be given and read.
"""

import pkgutil
from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import UserError

ELECTRA, ELECTRIC, MLM, ELECTRA_15 = "electra", "electric", "mlm", "electra_15"
ADVERSARIAL = "adversarial"
MASKED_LM, TWO_TOWER, UNIFORM, UNIGRAM = "masked_lm", "two_tower", "uniform", "unigram"
# `electra_tf.generators.sharing` says what each mode shares.
SHARE_NONE, SHARE_TOKEN, SHARE_ES, SHARE_EMBEDDINGS = "none", "token", "es", "embeddings"
SHARE_ALL, SHARE_GDES = "all", "gdes"
# Replacement tokens: samples of the generator, or its most likely tokens.
SAMPLE, ARGMAX = "sample", "argmax"
REPLACEMENTS = (SAMPLE, ARGMAX)

# Value of the flag to the "module:name" that implements it, imported by `load`. To add an
# objective, a masking strategy, a generator or a sharing mode, write its class or function
# and add a line here; what has no generator or no encoder is also named below.
OBJECTIVES = {
    ADVERSARIAL: "electra_tf.objectives.adversarial:Adversarial",
    "all_tokens_mlm": "electra_tf.objectives.all_tokens_mlm:AllTokensMLM",
    ELECTRA: "electra_tf.pretraining_model:PretrainingModel",
    ELECTRA_15: "electra_tf.objectives.electra_15:MaskedTokensDetection",
    ELECTRIC: "electra_tf.objectives.electric:NoiseContrastiveCloze",
    MLM: "electra_tf.objectives.mlm:MaskedLanguageModel",
    "replace_mlm": "electra_tf.objectives.replace_mlm:ReplaceMLM",
    "sentence_contrastive": "electra_tf.objectives.sentence_contrastive:SentenceContrastive",
    "two_stage": "electra_tf.objectives.two_stage:TwoStage",
}
MASKING = {
    "learned": "electra_tf.masking.learned:LearnedMasking",
    "span": "electra_tf.masking.span:SpanMasking",
    "strategic": "electra_tf.masking.strategic:StrategicMasking",
    "token": "electra_tf.masking.token:TokenMasking",
    "whole_word": "electra_tf.masking.whole_word:WholeWordMasking",
}
GENERATORS = {
    MASKED_LM: "electra_tf.generators.masked_lm:MaskedLMGenerator",
    TWO_TOWER: "electra_tf.generators.two_tower:TwoTowerGenerator",
    UNIFORM: "electra_tf.generators.constant:UniformGenerator",
    UNIGRAM: "electra_tf.generators.constant:UnigramGenerator",
}
EMBEDDING_SHARING = {
    SHARE_NONE: "electra_tf.generators.sharing:share_nothing",
    SHARE_TOKEN: "electra_tf.generators.sharing:share_token_embeddings",
    SHARE_ES: "electra_tf.generators.sharing:share_tables",
    SHARE_EMBEDDINGS: "electra_tf.generators.sharing:share_embeddings",
    SHARE_ALL: "electra_tf.generators.sharing:share_all",
    SHARE_GDES: "electra_tf.generators.sharing:share_disentangled",
}

# Objectives without a generator (`has_generator` of their classes is false), and generators
# without weights (`is_constant`): the sizes of the generator do not apply to them.
WITHOUT_GENERATOR = (MLM,)
WITHOUT_ENCODER = (UNIFORM, UNIGRAM)
# Generators whose encoders, if any, are not made by a sharing mode (`has_encoder` is false).
# They support only the modes "none" and "embeddings".
WITHOUT_SHARED_ENCODER = (TWO_TOWER, *WITHOUT_ENCODER)

# The authors' flags by our flag.
_SYNONYMS = {
    "objective": ("electra_objective", "electric_objective"),
    "generator_type": ("uniform_generator", "two_tower_generator"),
    "embedding_sharing": ("untied_generator", "untied_generator_embeddings"),
}


def load(table: Mapping[str, str], name: str) -> Any:
    """Imports the object of a choice, `table[name]`.

    Raises:
        UserError: the table has no such choice.
        ImportError, AttributeError: the object does not exist.
    """
    if name not in table:
        raise UserError(
            f"{name!r} is not one of {', '.join(table)}: register a choice of your own in "
            "every program, before using it"
        )
    return pkgutil.resolve_name(table[name])


def resolve_choices(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns each choice under our flag and the authors' flags.

    Args:
        given: hyperparameters given by the user.

    Raises:
        UserError: two of them contradict each other, or cannot be combined.
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
        # Tying all weights leaves the authors' code nothing to untie.
        agreeing=(
            {("untied_generator_embeddings", True): (SHARE_NONE, SHARE_ALL)}
            if given.get("untied_generator") is False
            else None
        ),
    )
    _check_combination(objective, generator, sharing)
    choices = {
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
    _check_synonyms(given, choices)
    return choices


def _check_combination(objective: str, generator: str, sharing: str) -> None:
    """Raises UserError for choices that cannot be combined."""
    generator_flag = f"--generator_type={generator}"
    if f"{generator}_generator" in _SYNONYMS["generator_type"]:
        generator_flag += f" (or --{generator}_generator)"
    if objective == MLM and generator != MASKED_LM:
        raise UserError(
            f"{generator_flag}: a masked language model has no generator; choose another "
            "--objective"
        )
    if objective == ELECTRIC and generator != TWO_TOWER:
        raise UserError(
            f"--generator_type={generator}: the Electric objective needs the probabilities of "
            "a two_tower generator"
        )
    if generator in WITHOUT_SHARED_ENCODER and sharing == SHARE_ALL:
        raise UserError(
            f"{generator_flag} cannot share all weights with the discriminator "
            "(--embedding_sharing=all, or --untied_generator=false)"
        )
    if sharing in (SHARE_TOKEN, SHARE_ES, SHARE_GDES) and (
        objective in WITHOUT_GENERATOR or generator in WITHOUT_SHARED_ENCODER
    ):
        raise UserError(
            f"--embedding_sharing={sharing} needs a masked_lm generator and a discriminator; "
            f"--objective={objective} with --generator_type={generator} does not have both"
        )


def _check_synonyms(given: Mapping[str, Any], choices: Mapping[str, Any]) -> None:
    """Raises UserError for an authors' flag that contradicts a choice."""
    either = []  # no choice depends on them: see `resolve_choices`
    if choices["objective"] == ELECTRIC:
        either.append("electra_objective")
    if choices["embedding_sharing"] == SHARE_ALL:
        either.append("untied_generator_embeddings")
    for name, flags in _SYNONYMS.items():
        for flag in flags:
            value = given.get(flag)
            if value not in (None, choices[flag]) and flag not in either:
                raise UserError(
                    f"--{flag}={str(value).lower()} contradicts --{name}={choices[name]}: pass "
                    "only one"
                )


def _choose(
    given: Mapping[str, Any],
    name: str,
    synonyms: list[tuple[str, bool, str]],
    default: str,
    agreeing: Mapping[tuple[str, bool], tuple[str, ...]] | None = None,
) -> str:
    """Returns the choice of the flag `name`, else of the first synonym that is set.

    Args:
        given: hyperparameters given by the user.
        name: our flag.
        synonyms: (authors' flag, value that selects a choice, the choice).
        default: the choice if nothing is given.
        agreeing: choices compatible with a synonym, if more than its own.
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
            raise UserError(f"{source} and {flag} contradict each other: pass only one")
    return chosen
