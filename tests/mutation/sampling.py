"""The mutants of a module that are tried: one for each place and kind of change.

Cosmic Ray replaces each operator by all others, most of which fail at once: they would only
raise the share of mutants that tests notice.
"""

import pathlib
import random
from collections.abc import Sequence

from cosmic_ray.work_item import MutationSpec

from tests.mutation.sources import annotations


def sample(
    path: pathlib.Path, mutations: Sequence[MutationSpec], seed: int
) -> list[MutationSpec]:
    """Returns one mutation of each place and kind, in a random order.

    Annotations are left out, which have no effect at run time but at an import.

    Args:
        path: the module.
        mutations: all of its mutations.
        seed: of the choice and of the order, which also depend on the module's name.
    """
    left_out = list(annotations(path.read_text(encoding="utf-8")))
    places: dict[tuple, list[MutationSpec]] = {}
    for mutation in mutations:
        if not any(start <= mutation.start_pos < end for start, end in left_out):
            places.setdefault((mutation.start_pos, kind(mutation)), []).append(mutation)
    generator = random.Random(f"{seed} {path.name}")
    chosen = [generator.choice(places[place]) for place in sorted(places)]
    generator.shuffle(chosen)
    return chosen


def kind(mutation: MutationSpec) -> str:
    """Returns what is changed: ReplaceBinaryOperator for "…/ReplaceBinaryOperator_Add_Sub"."""
    return mutation.operator_name.rpartition("/")[2].partition("_")[0]
