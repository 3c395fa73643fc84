"""How training shows that it goes on: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 15.0


class Progress:
    """Shows step, loss, learning rate, tokens per second and the time that is left.

    Args:
        first: steps made before.
        total: the step at which training ends.
    """

    def __init__(self, first: int, total: int) -> None:
        self._first, self._total = first, total
        self._start = self._shown = time.monotonic()
        self._tokens = 0
        self._losses: list[float] = []
        terminal = sys.stderr.isatty()
        self._bar = tqdm(total=total, initial=first, unit="step") if terminal else None

    def update(self, metrics: Mapping[str, float], tokens: int) -> float:
        """Counts one step.

        Args:
            metrics: of the step: "step", "loss" and "learning_rate".
            tokens: of the batch, padding not counted.

        Returns:
            Tokens per second since the beginning, the first step and its compilation left out.
        """
        now = time.monotonic()
        step = int(metrics["step"])
        self._losses.append(metrics["loss"])
        if step == self._first + 1:
            self._start, self._tokens = now, 0
        else:
            self._tokens += tokens
        rate = self._tokens / max(now - self._start, 1e-9)
        due = now - self._shown >= (0.5 if self._bar else _SECONDS_BETWEEN_LINES)
        if due or step in (self._first + 1, self._total):
            self._show(step, metrics["learning_rate"], rate, now)
        return rate

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()

    def _show(self, step: int, learning_rate: float, rate: float, now: float) -> None:
        loss = sum(self._losses) / len(self._losses)
        self._losses, self._shown = [], now
        text = f"loss {loss:.4f}  lr {learning_rate:.2e}  {rate:,.0f} tokens/s"
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(step - self._bar.n)
            return
        made = step - self._first - 1
        left = (now - self._start) / made * (self._total - step) if made else None
        eta = f"  {int(left) // 60}:{int(left) % 60:02d} left" if left is not None else ""
        print(f"step {step}/{self._total}  {text}{eta}", flush=True)
