"""One thread that computes with the model what requests ask for, several of them at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import InvalidStateError
from typing import Any

import numpy as np
import seqio

from mtf_models.data.buckets import padded, widths_to
from mtf_models.data.encoding import encoding_of
from mtf_models.decode.followed import FollowedTexts
from mtf_models.decode.options import EOS, DecodeOptions
from mtf_models.decode.result import NO_SEQUENCE
from mtf_models.decode.text_stream import TextStream
from mtf_models.errors import DataError
from mtf_models.runtime.model.decode_request import DecodeRequest, length_of, settings_of
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.using.asked import follows
from mtf_models.serve.jobs import Job, JobQueue
from mtf_models.serve.measures import Measures
from mtf_models.serve.schema import Generate, Generated, Output, Score, Scored


class Engine:
    """A model and the requests for it.

    What a request is answered does not depend on those it is computed with.

    Args:
        model: restored.
        task: whose vocabularies are used.
        step: of the model's checkpoint.
        max_batch: at most so many requests are computed together.
        max_queue: at most so many wait.
        max_tokens: at most so many tokens are decoded; None for the length of the model's targets.
    """

    def __init__(
        self,
        model: Model,
        task: seqio.Task | seqio.Mixture,
        step: int,
        max_batch: int = 8,
        max_queue: int = 256,
        max_tokens: int | None = None,
    ) -> None:
        lengths = model.settings.sequence_length
        self.model, self.step = model, step
        self.measures = Measures()
        self.queue = JobQueue(max_queue)
        self.max_tokens = max_tokens or lengths["targets"]
        self.max_input = lengths.get("inputs", lengths["targets"])
        self._has_encoder = "inputs" in model.network.feature_names
        self._task = task
        self._vocabulary = task.output_features["targets"].vocabulary
        self._max_batch = max_batch
        self._thread = threading.Thread(target=self._serve, name="model", daemon=True)

    def start(self) -> None:
        """Starts to compute."""
        self._thread.start()

    def stop(self) -> None:
        """Answers what waits, and ends."""
        self.queue.close()
        self._thread.join()

    def generation(self, request: Generate, tell: Callable[[str], None] | None = None) -> Job:
        """The job of a request for texts.

        Raises:
            ConfigError: if what it asks of decoding does not fit together, or the model's config.
            DataError: if it is too long, or asks for more than there is.
        """
        ids = {"inputs": self._encoded("inputs", request.inputs, self.max_input)}
        if (request.max_tokens or 1) > self.max_tokens:
            raise DataError(
                f"max_tokens is {request.max_tokens}, and at most {self.max_tokens} are decoded "
                "here."
            )
        decoding = settings_of(self.model, DecodeRequest(request.decoding())).options
        self._check_telling(request, decoding)
        if request.prefix is not None:
            ids["prefix"] = self._prefix(request.prefix)
        asked = (*sorted(request.decoding().items()), request.seed)
        widths = (_width(ids["inputs"], self.max_input), _width(ids.get("prefix"), self.max_tokens))
        is_followed = follows(self.model, decoding)
        # Each of those that are followed ends at its own limit, the others at one for all.
        limit = 0 if is_followed else request.max_tokens or 0
        key = ("generate", widths, is_followed, asked, limit)
        return Job(key, request, ids, tell)

    def scoring(self, request: Score) -> Job:
        """The job of a request for a score.

        Raises:
            DataError: if it is too long, or has inputs that the model does not read, or lacks them.
        """
        if (request.inputs is not None) != self._has_encoder:
            raise DataError(
                "This model reads inputs: give them too."
                if self._has_encoder
                else "This is a language model, which scores targets alone: give no inputs."
            )
        ids = {"targets": self._encoded("targets", request.targets, self.max_tokens)}
        if request.inputs is not None:
            ids["inputs"] = self._encoded("inputs", request.inputs, self.max_input)
        return Job(("score",), request, ids)

    def warm_up(self) -> None:
        """Compiles what the most common request needs."""
        self._generate([self.generation(Generate(inputs="a", max_tokens=1))])

    def _check_telling(self, request: Generate, decoding: DecodeOptions) -> None:
        if decoding.is_beam_search and (request.stop or request.stream):
            raise DataError(
                f"A beam search (beam_size={decoding.beam_size}) tells its texts at its end: "
                "leave out stream and stop."
            )
        if request.stop and self.model.mesh.size > 1:
            raise DataError("Stop strings are of one device, and this is a mesh: leave out stop.")

    def _encoded(self, name: str, text: str, most: int) -> np.ndarray:
        vocabulary, end = encoding_of(self._task, name)
        ids = np.array([*vocabulary.encode(text), *end], np.int32)
        if len(ids) > most:
            raise DataError(f"The {name} have {len(ids)} tokens, and the model reads {most}.")
        return ids

    def _prefix(self, text: str) -> np.ndarray:
        if not self._has_encoder:
            raise DataError(
                "A prefix is of an encoder-decoder, and this model continues its inputs: put it "
                "at their end."
            )
        ids = np.array(self._vocabulary.encode(text), np.int32)
        if len(ids) > self.max_tokens:
            raise DataError(
                f"The prefix has {len(ids)} tokens, and at most {self.max_tokens} are read here."
            )
        return ids

    def _serve(self) -> None:
        while jobs := self.queue.take(self._max_batch):
            jobs = [job for job in jobs if not job.given_up]
            if not jobs:
                continue
            self.measures.batches.observe(len(jobs))
            compute = self._generate if jobs[0].key[0] == "generate" else self._score
            try:
                compute(jobs)
            except Exception as error:  # Whatever it is, the next requests are to be answered.
                for job in jobs:
                    with contextlib.suppress(InvalidStateError):
                        job.answer.set_exception(error)

    def _rows(self, jobs: Sequence[Job], name: str, width: int) -> np.ndarray:
        """[rows, width] ids, in one of few shapes; rows after the jobs' repeat the first."""
        count = min(self._max_batch, 1 << (len(jobs) - 1).bit_length())
        parts = self.model.mesh.size
        ids = [job.ids[name] for job in jobs]
        return padded(ids + ids[:1] * (-(-count // parts) * parts - len(ids)), width)

    def _generate(self, jobs: Sequence[Job]) -> None:
        request: Generate = jobs[0].request
        (width, begun), is_followed = jobs[0].key[1:3]
        inputs = self._rows(jobs, "inputs", width)
        asked = request.decoding()
        followed = None
        if is_followed:
            followed = _Followed(jobs, self._text, request.num_return or 1, self.max_tokens)
            asked["listener"] = followed
        elif (request.num_return or 1) > 1:
            asked["stop_early"] = False  # All of them are the best ones, whatever else is there.
        most = self.max_tokens if followed else request.max_tokens or self.max_tokens
        asked |= length_of(self.model, most, request.decoding())
        if begun:  # What is given is not counted.
            asked["prefix"] = self._rows(jobs, "prefix", begun)
            asked["max_steps"] = asked.pop("max_decode_length")
        found = self.model.decode(
            {"inputs": inputs}, row_numbers=[0] * len(inputs), seed=request.seed, **asked
        )
        if followed:
            followed.finish()
        ids, scores = found.ids.numpy(), found.scores.numpy()
        for row, job in enumerate(jobs):
            if followed:
                texts = followed.outputs(row, np.atleast_1d(scores[row]))
            else:
                given = 0 if self._has_encoder else len(job.ids["inputs"])
                begins = len(job.ids.get("prefix", ()))
                texts = self._outputs(np.atleast_2d(ids[row])[:, given:], scores[row], begins)
            self.measures.tokens.inc(sum(output.tokens for output in texts))
            _answer(job, Generated(outputs=texts))

    def _outputs(self, ids: np.ndarray, scores: np.ndarray, begins: int) -> list[Output]:
        """The sequences [n, length] of one row, without places that none took.

        Args:
            ids: of the sequences.
            scores: of the sequences.
            begins: so many ids at their beginning were given.
        """
        return [
            Output(text=self._text(list(row)), score=float(score), tokens=len(row) - begins)
            for row, score in zip(map(_until_end, ids), np.atleast_1d(scores), strict=True)
            if score > NO_SEQUENCE
        ]

    def _score(self, jobs: Sequence[Job]) -> None:
        widths = {"targets": self.max_tokens, "inputs": self.max_input}
        features = {name: self._rows(jobs, name, widths[name]) for name in jobs[0].ids}
        scores = self.model.score(features).numpy()
        for job, score in zip(jobs, scores, strict=False):
            _answer(job, Scored(log_probability=float(score), tokens=len(job.ids["targets"])))

    def _text(self, ids: list[int]) -> str:
        return self._vocabulary.decode([int(i) for i in ids if i != EOS])


class _Followed(FollowedTexts):
    """The texts of jobs while they are decoded.

    Args:
        jobs: a row each.
        decode: ids to text.
        each: sequences of each row.
        most: tokens of a sequence, where its request does not say.
    """

    def __init__(
        self, jobs: Sequence[Job], decode: Callable[[list[int]], str], each: int, most: int
    ) -> None:
        places = [job for job in jobs for _ in range(each)]
        limits = [job.request.max_tokens or most for job in places]
        given = [job.ids.get("prefix", np.array([], np.int32)).tolist() for job in places]
        streams = [
            TextStream(decode, job.request.stop, ids)
            for job, ids in zip(places, given, strict=True)
        ]

        def tell(place: int, piece: str) -> None:
            if places[place].tell:
                places[place].tell(piece)

        def is_over(place: int) -> bool:
            return len(streams[place].ids) >= limits[place] or places[place].given_up

        super().__init__(streams, tell, is_over)
        self._each = each

    def outputs(self, row: int, scores: np.ndarray) -> list[Output]:
        """What a row came to."""
        streams = self.streams[row * self._each : (row + 1) * self._each]
        return [
            Output(text=text.text, score=float(score), tokens=len(text.ids))
            for text, score in zip(streams, scores, strict=True)
        ]


def _answer(job: Job, answer: Any) -> None:
    with contextlib.suppress(InvalidStateError):  # It was given up.
        job.answer.set_result(answer)


def _width(ids: np.ndarray | None, most: int) -> int:
    """The width of a batch for ids; 0 where there are none."""
    if ids is None:
        return 0
    return next(width for width in widths_to(most) if len(ids) <= width)


def _until_end(ids: np.ndarray) -> np.ndarray:
    """Up to the first end of sequence, it included, or the last id."""
    ends = np.flatnonzero(ids == EOS)
    return ids[: ends[0] + 1] if len(ends) else np.trim_zeros(ids, "b")
