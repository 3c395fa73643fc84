"""What requests and answers hold."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_CHARACTERS = 20_000
"""Of a text; how many tokens are read is the model's to say."""

Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS, pattern=r"\S")]
_DECODING = (
    "beam_size",
    "alpha",
    "temperature",
    "top_k",
    "top_p",
    "num_return",
    "repetition_penalty",
    "no_repeat_ngram",
)


class Generate(BaseModel):
    """Asks for texts; what is left out is as the model's config says."""

    model_config = ConfigDict(extra="forbid")

    inputs: Text = Field(description="what to decode from; the prompt of a language model")
    max_tokens: int | None = Field(None, ge=1, description="at most so many tokens")
    beam_size: int | None = Field(None, ge=1, le=32, description="hypotheses of a beam search")
    alpha: float | None = Field(None, ge=0, le=10, description="exponent of its length penalty")
    temperature: float | None = Field(None, ge=0, le=100, description="above 0, to draw")
    top_k: int | None = Field(None, ge=0, description="draw among so many of the likeliest")
    top_p: float | None = Field(None, gt=0, le=1, description="draw among this probability")
    num_return: int | None = Field(None, ge=1, le=32, description="sequences to return")
    repetition_penalty: float | None = Field(
        None, ge=1, le=1e6, description="multiplies log-probabilities of tokens there already"
    )
    no_repeat_ngram: int | None = Field(None, ge=0, description="no run of so many comes twice")
    prefix: Text | None = Field(None, description="what the texts of an encoder-decoder begin with")
    seed: int = Field(0, ge=0, lt=2**31, description="of what is drawn")
    stop: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=8, description="strings that end a text; not of a beam"
    )
    stream: bool = Field(False, description="whether tokens are sent as they come")

    @model_validator(mode="after")
    def fits_together(self) -> Self:
        """Refuses what contradicts itself, whatever the model's config says of decoding."""
        if self.stream and (self.num_return or 1) > 1:
            raise ValueError("a stream is of one text: leave num_return at 1")
        return self

    def decoding(self) -> dict[str, Any]:
        """What is asked of decoding, by its names."""
        given = {name: getattr(self, name) for name in _DECODING}
        return {name: value for name, value in given.items() if value is not None}


class Output(BaseModel):
    """One text."""

    text: str
    score: float = Field(description="log-probability; of a beam, divided by the length penalty")
    tokens: int = Field(description="decoded, the end counted, a prefix or prompt not")


class Generated(BaseModel):
    """The texts of one request, best first."""

    outputs: list[Output]


class Score(BaseModel):
    """Asks how likely targets are."""

    model_config = ConfigDict(extra="forbid")

    targets: Text
    inputs: Text | None = Field(None, description="what an encoder-decoder reads")


class Scored(BaseModel):
    """How likely they are."""

    log_probability: float = Field(description="natural logarithm, the end of sequence counted")
    tokens: int = Field(description="of the targets, the end counted")


class Health(BaseModel):
    """What is served."""

    model: str
    step: int
    parameters: int
    max_input_tokens: int
    max_tokens: int
    waiting: int = Field(description="requests that wait for the model")
