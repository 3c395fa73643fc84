"""How to decode: what is chosen at each position, and how many hypotheses are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mtf_models.decode.listener import Listener
from mtf_models.errors import ConfigError

EOS = 1


@dataclass(frozen=True)
class DecodeOptions:
    """What is asked of decoding.

    With `beam_size` above 1 it is a beam search; else with a `temperature` above 0 ids are drawn,
    and else the most likely id is taken at each position. What stands in the way of an id is
    applied in this order: ids that the step excludes, `never_end`, `no_repeat_ngram`,
    `repetition_penalty`, `temperature`, `top_k`, and `top_p` on what is left of the distribution.

    Attributes:
        beam_size: hypotheses that a beam search keeps for each row.
        alpha: exponent of the length penalty ((5 + n) / 6)^alpha, by which a beam search divides
            the log-probability of a hypothesis of n ids (Wu et al. 2016, section 7).
        temperature: what logits are divided by before drawing; 0 does not draw.
        top_k: ids are drawn among so many of the likeliest (Fan et al. 2018); with equals at the
            end of them, among those too; 0 for all.
        top_p: ids are drawn among the fewest likeliest that have this part of the probability
            together (Holtzman et al. 2020); 1 for all.
        num_return: sequences for each row: hypotheses of a beam search, or independent draws.
        repetition_penalty: logits, as log-probabilities, of ids that the row has already are
            multiplied by it (Keskar et al. 2019); 1 for none.
        no_repeat_ngram: no run of so many ids occurs twice in a row; 0 for none.
        stop_ids: ids that end a sequence.
        never_end: whether ids that end a sequence are never chosen.
        stop_early: whether a beam search ends when in no row a hypothesis can become better than
            the finished ones that there are, even if they are fewer than the beam; else only when
            they fill the beam too, so that all `num_return` sequences are the best ones.
        num_prefilter: how many ids of each hypothesis a beam search looks at. 0 looks at as many as
            can matter; fewer are faster and may lose the best sequence.
        first_id: what is read before the first position.
        listener: follows the loop; None for none.

    Raises:
        ConfigError: listing all that does not fit.
    """

    beam_size: int = 1
    alpha: float = 0.6
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    num_return: int = 1
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    stop_ids: tuple[int, ...] = (EOS,)
    never_end: bool = False
    stop_early: bool = True
    num_prefilter: int = 0
    first_id: int = 0
    listener: Listener | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop_ids", tuple(map(int, self.stop_ids)))
        faults = [*_out_of_range(self), *_contradictions(self)]
        if faults:
            raise ConfigError(f"Decoding was asked for what does not fit: {'; '.join(faults)}.")

    @property
    def is_beam_search(self) -> bool:
        """Whether several hypotheses of a row are kept."""
        return self.beam_size > 1

    @property
    def draws(self) -> bool:
        """Whether random numbers decide."""
        return self.temperature > 0


def _out_of_range(options: DecodeOptions) -> Iterator[str]:
    for name, least in {
        "beam_size": 1,
        "num_return": 1,
        "top_k": 0,
        "no_repeat_ngram": 0,
        "num_prefilter": 0,
    }.items():
        value = getattr(options, name)
        if not isinstance(value, int) or value < least:
            yield f"{name}={value!r} is not a whole number from {least}"
    for name in ("temperature", "alpha"):
        if not 0 <= getattr(options, name) < float("inf"):
            yield f"{name}={getattr(options, name)!r} is not a number from 0"
    if not 0 < options.top_p <= 1:
        yield f"top_p={options.top_p!r} is not above 0 and at most 1"
    if not options.repetition_penalty >= 1:
        yield f"repetition_penalty={options.repetition_penalty!r} is not a number from 1"
    if not options.stop_ids:
        yield "there are no stop_ids; never_end=True decodes without an end"


def _contradictions(options: DecodeOptions) -> Iterator[str]:
    beams, draws = options.beam_size, options.temperature > 0
    if beams > 1:
        for name, off in {
            "temperature": 0,
            "top_k": 0,
            "top_p": 1,
            "repetition_penalty": 1,
        }.items():
            if getattr(options, name) != off:
                yield (
                    f"a beam search (beam_size={beams}) has no {name}, and it is "
                    f"{getattr(options, name)}; leave it at {off}, or beam_size at 1"
                )
        if options.listener is not None:
            yield (
                f"a beam search (beam_size={beams}) has no listener, since all its sequences may "
                "change until the end"
            )
        if options.num_return > beams:
            yield f"num_return={options.num_return} is more than beam_size={beams}"
    elif not draws:
        for name, off in {"top_k": 0, "top_p": 1}.items():
            if getattr(options, name) != off:
                yield f"{name}={getattr(options, name)} is for drawing; set a temperature above 0"
        if options.num_return > 1:
            yield (
                f"num_return={options.num_return} sequences would all be the same without a "
                "beam_size above 1 or a temperature above 0"
            )
