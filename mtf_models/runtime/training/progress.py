"""How training shows that it goes on: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping

from tqdm import tqdm

from mtf_models import processes

_SECONDS_BETWEEN_LINES = 15.0
_SECONDS_BETWEEN_REDRAWS = 0.5


class Progress:
    """Shows step, loss, learning rate, tokens per second and the time that is left.

    Args:
        first: steps made before.
        total: the step at which training ends.
    """

    def __init__(self, first: int, total: int) -> None:
        self._first, self._total = first, total
        self._last = self._shown = time.monotonic()
        self._seconds = 0.0
        self._tokens = 0
        self._losses: list[float] = []
        terminal = sys.stderr.isatty() and processes.current().leads
        self._bar = tqdm(total=total, initial=first, unit="step") if terminal else None

    def update(self, step: int, metrics: Mapping[str, float], tokens: int) -> float | None:
        """Counts one step.

        Args:
            step: the number of steps made.
            metrics: of the step, with "loss" and "learning_rate".
            tokens: of the batch, padding not counted.

        Returns:
            Tokens per second of all steps but the first, which is compiled; None for the first.
        """
        now = time.monotonic()
        spent, self._last = now - self._last, now
        self._losses.append(metrics["loss"])
        if step == self._first + 1:
            self._show(step, metrics["learning_rate"], f"{spent:.1f} s for the first step", now)
            return None
        self._seconds += spent
        self._tokens += tokens
        rate = self._tokens / max(self._seconds, 1e-9)
        pause = _SECONDS_BETWEEN_REDRAWS if self._bar is not None else _SECONDS_BETWEEN_LINES
        if now - self._shown >= pause or step == self._total:
            self._show(step, metrics["learning_rate"], self._speed(step, rate), now)
        return rate

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Around other work, which does not count as time of a step."""
        began = time.monotonic()
        yield
        self._last += time.monotonic() - began

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()

    def _speed(self, step: int, rate: float) -> str:
        """Tokens per second and, where the bar does not say it, the time that is left."""
        text = f"{rate:,.0f} tokens/s"
        if self._bar is not None:
            return text
        left = int(self._seconds / (step - self._first - 1) * (self._total - step))
        return f"{text}  {left // 60}:{left % 60:02d} left"

    def _show(self, step: int, learning_rate: float, speed: str, now: float) -> None:
        loss = sum(self._losses) / len(self._losses)
        self._losses, self._shown = [], now
        text = f"loss {loss:.4f}  lr {learning_rate:.2e}  {speed}"
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(step - self._bar.n)
        else:
            print(f"step {step}/{self._total}  {text}", flush=True)
