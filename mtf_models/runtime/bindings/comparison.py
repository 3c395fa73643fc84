"""What gin says of a comparison: the variants of a config, and the seeds of their runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError


@configurable(module="mtf_models", name="compare")
@dataclass(frozen=True)
class Comparison:
    """What gin binds for `mtf compare`, as `compare.*`.

    Args:
        variants: name to the gin bindings that make the variant of the config; none for the config
            itself.
        seeds: of the runs of each variant: initial values, order of data, dropout.

    Raises:
        ConfigError: listing whatever is wrong with them.
    """

    variants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seeds: Sequence[int] = (0, 1, 2)

    def __post_init__(self) -> None:
        faults = [*_faults_of_variants(self.variants), *_faults_of_seeds(self.seeds)]
        if faults:
            raise ConfigError(
                f"{'; '.join(faults)}. For example: compare.variants = "
                '{"small": [], "wide": ["d_ff = 1024"]} and compare.seeds = [0, 1, 2].'
            )


def folder_name(variant: str) -> str:
    """The name of a variant's folder: letters, digits and underscores."""
    return re.sub(r"\W+", "_", variant).strip("_")


def _faults_of_variants(variants: Mapping[str, Sequence[str]]) -> list[str]:
    if not isinstance(variants, Mapping) or len(variants) < 2:
        return [f"compare.variants is {variants!r}, and a comparison needs two named lists or more"]
    faults = [
        f"compare.variants[{name!r}] is {bindings!r}, and not a list of bindings as text"
        for name, bindings in variants.items()
        if not isinstance(bindings, list | tuple) or not all(isinstance(b, str) for b in bindings)
    ]
    folders = [folder_name(str(name)) for name in variants]
    if "" in folders or len(set(folders)) < len(folders):
        faults.append(f"variants {', '.join(map(repr, variants))} need different letters or digits")
    return faults


def _faults_of_seeds(seeds: Sequence[int]) -> list[str]:
    whole = isinstance(seeds, list | tuple) and all(type(s) is int and s >= 0 for s in seeds)
    if whole and seeds and len(set(seeds)) == len(seeds):
        return []
    return [f"compare.seeds is {seeds!r}, and not a list of different whole numbers from 0"]
