"""Training steps: gradients, optimizer update, checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models import config as gin_config
from mtf_models.checkpoint import CheckpointManager, Reader
from mtf_models.checkpoint.names import is_slot
from mtf_models.errors import ConfigError, TrainingDiverged
from mtf_models.mesh import Dimension, RandomStream, Shape, Tensor, Variable, VariableStore
from mtf_models.mesh.dtype import VariableDType
from mtf_models.mesh.initializers import zeros
from mtf_models.mesh.recording.record import updating
from mtf_models.mesh.variable import VariableSpec
from mtf_models.optimize.adafactor import AdafactorOptimizer
from mtf_models.optimize.microbatch import in_microbatches, num_microbatches
from mtf_models.optimize.optimizer import Optimizer
from mtf_models.optimize.schedules import Schedule, compute
from mtf_models.runtime.bindings.settings import total_steps
from mtf_models.runtime.bindings.variable_filter import trained_variables
from mtf_models.runtime.folder.run_folder import RunFolder
from mtf_models.runtime.model.compiled import CompiledFunction, Tensors
from mtf_models.runtime.model.model import Model


class Trainer:
    """Updates a model in place, one compiled step at a time.

    Args:
        model: what to train.
        optimizer: None for what the config binds, else Adafactor.
        learning_rate: a constant, a schedule (a function of step and total steps, or a list whose
            product is meant), or None for the config's, else the optimizer's own.

    Attributes:
        model: as given.
        step_number: how many steps were made.
        trained: the variables that steps update, chosen by the config; others stay as they are.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Optimizer | None = None,
        learning_rate: Schedule | None = None,
    ) -> None:
        self.model = model
        self.step_number = 0
        with model.config.active():
            made = model.settings.optimizer or AdafactorOptimizer
            self.optimizer = made() if optimizer is None else optimizer
            ends = total_steps(model.mesh, model.settings)
            self._total = model.settings.total_run_steps or ends
        if not isinstance(self.optimizer, Optimizer):
            raise ConfigError(
                f"The optimizer is {self.optimizer!r}; give an instance, such as "
                "mtf_models.optimize.AdamW()."
            )
        self._schedule = learning_rate
        if learning_rate is None:
            self._schedule = model.settings.learning_rate_schedule
        self._slots = VariableStore(model.mesh)
        with model.config.active():
            chosen_by = model.settings.variable_filter
            self.trained = trained_variables(model.variables.values(), chosen_by)
        self.optimizer.check_names([v.name for v in self.trained])
        self._slots_of = {v.name: self._add_slots(v) for v in self.trained}
        self._step = CompiledFunction(model.mesh, self.compute_step)
        self._managers: dict[Path, CheckpointManager] = {}

    @property
    def slots(self) -> Mapping[str, list[Variable]]:
        """The optimizer's variables, by the name of the one that they belong to."""
        return self._slots_of

    @property
    def variables(self) -> Mapping[str, Variable]:
        """Weights and slots, under their checkpoint names."""
        return {**self.model.variables, **self._slots.variables}

    def learning_rate(self, step: int) -> float:
        """The learning rate of the step after `step` steps."""
        return self._rates(step)[0]

    def _rates(self, step: int) -> list[float]:
        """That of the run, and those that the optimizer has for some variables."""
        with self.model.config.active():
            scheduled = compute(self._schedule, step, self._total)
            rates = [float(r) for r in self.optimizer.rates(scheduled, step, self._total)]
        for rate in rates:
            if not 0.0 <= rate < math.inf:
                raise ConfigError(
                    f"The learning rate of step {step + 1} is {rate}; it must be a number from 0. "
                    f"The schedule counts on {self._total} steps (run.train_steps)."
                )
        return rates

    @property
    def rate_names(self) -> list[str]:
        """What `compute_step` calls the learning rates: the run's, then the optimizer's others."""
        others = range(1, self.optimizer.number_of_rates)
        return ["learning_rate", *(f"learning_rate_{number}" for number in others)]

    def step(self, features: Mapping[str, Any]) -> dict[str, float]:
        """Makes one step.

        Args:
            features: see `Model`.

        Returns:
            "loss" before the update, its parts and what layers report, "learning_rate" and "step",
            the number of steps made.

        Raises:
            DataError: if a feature does not fit the model.
            TrainingDiverged: if the loss is not finite.
        """
        # A graph in which variables are made is traced twice.
        self.model.allocate()
        self._slots.allocate()
        rates = self._rates(self.step_number)
        tensors = self.model.tensors(features)
        losses = self._step({**tensors, **self._scalars(rates)})
        self.step_number += 1
        values = {name: float(x) for name, x in losses.items()}
        if not math.isfinite(values["loss"]):
            raise TrainingDiverged(
                f"The loss of step {self.step_number} is {values['loss']}. Go back to the last "
                "checkpoint with a lower learning rate, or float32 activations."
            )
        return {**values, "learning_rate": rates[0], "step": float(self.step_number)}

    def save(self, folder: str | Path, extra: Mapping[str, Any] | None = None) -> Path:
        """Writes weights and slots as a checkpoint of this step, and the config if there is none.

        As in training, the config says how many are kept, and what this trainer wrote in the
        folder, or what lies after the step that it restored from there, is replaced.

        Args:
            folder: the run folder.
            extra: what else a resumed run needs.

        Returns:
            The path of the checkpoint without endings.

        Raises:
            CheckpointError: if it cannot be written, or another run wrote one of this step; earlier
                ones stay.
            ConfigError: if the folder is that of another config.
        """
        run_folder = RunFolder(folder)
        if run_folder.config_file.exists():
            recorded = gin_config.parse([str(run_folder.config_file)])
            run_folder.check_same(recorded, self.model.config)
        prefix = self.manager(folder).save(self.step_number, self.variables, extra)
        if not run_folder.config_file.exists():
            run_folder.describe(self.model.config, self.model)
        return prefix

    def restore(
        self, folder: str | Path, step: int | None = None, allow_partial: bool = False
    ) -> dict[str, Any]:
        """Takes up weights, slots and step of a checkpoint.

        Args:
            folder: the run folder.
            step: which checkpoint; None for the latest.
            allow_partial: whether variables may be in the model or in the checkpoint only; they
                are listed then. All slots may be missing in any case, and start at zero; those of
                variables that are not trained may be there, and are left.

        Returns:
            What was saved as extra.

        Raises:
            CheckpointError: if there is no such checkpoint, or it does not fit.
        """
        manager = self.manager(folder)
        step = manager.chosen(step)
        has_slots = any(map(is_slot, Reader(manager.prefix(step)).names))
        allowed = () if has_slots else tuple(self._slots.variables)
        left = self._slots_of_untrained()
        extra = manager.restore(step, self.variables, allowed, left, allow_partial)
        self.step_number = step
        return extra

    def manager(self, folder: str | Path) -> CheckpointManager:
        """The checkpoints of a folder, which remembers what this trainer saved and restored."""
        path = Path(folder).resolve()
        if path not in self._managers:
            keep = self.model.settings.keep_checkpoint_max
            self._managers[path] = CheckpointManager(folder, keep=keep)
        return self._managers[path]

    def _slots_of_untrained(self) -> list[str]:
        others = [v for v in self.model.variables.values() if v.name not in self._slots_of]
        shapes = (self.optimizer.slot_shapes(v.name, v.shape) for v in others)
        return [name for slots in shapes for name in slots]

    def _add_slots(self, variable: Variable) -> list[Variable]:
        shapes = self.optimizer.slot_shapes(variable.name, variable.shape)
        return [
            self._slots.add(VariableSpec(name, shape, VariableDType(), zeros(), trainable=False))
            for name, shape in shapes.items()
        ]

    def _scalars(self, rates: list[float]) -> Tensors:
        values = dict(zip(self.rate_names, np.float32(rates), strict=True))
        values["step"] = np.int32(self.step_number)
        return {n: mtf.import_tf_tensor(self.model.mesh, v, Shape()) for n, v in values.items()}

    def compute_step(self, inputs: Tensors) -> Tensors:
        """One step on the mesh; assigns all variables at its end.

        Args:
            inputs: the features, and the scalars of `rate_names` and "step".
        """
        rates, step = [inputs[name] for name in self.rate_names], inputs["step"]
        features = {n: x for n, x in inputs.items() if n not in (*self.rate_names, "step")}
        weights, slots = self.model.read(), self._slots.read()
        grads, losses = self._accumulated(features, step, weights)
        with updating(self.model.mesh):
            self._update(grads, weights, slots, rates, step)
        return losses

    def _update(
        self,
        grads: Tensors,
        weights: Mapping[str, tf.Tensor],
        slots: Mapping[str, tf.Tensor],
        rates: list[Tensor],
        step: Tensor,
    ) -> None:
        for variable in self.trained:
            if self.model.mesh.leaves_out(variable.name):
                continue
            state = {s.name: self._named(s, slots) for s in self._slots_of[variable.name]}
            value = self._named(variable, weights)
            grad = grads[variable.name]
            rate = rates[self.optimizer.rate_of(variable.name)]
            with mtf.variable_scope(variable.name):
                new, state = self.optimizer.update(variable.name, value, grad, state, rate, step)
            variable.held.assign(new.value)
            for slot in self._slots_of[variable.name]:
                slot.held.assign(state[slot.name].value)

    def _accumulated(
        self, features: Tensors, step: Tensor, weights: Mapping[str, tf.Tensor]
    ) -> tuple[Tensors, Tensors]:
        """Gradients and losses of a batch, in as many micro-batches as the config asks for."""
        batch = next(iter(features.values())).shape.get_dim_by_name("batch")
        count = self._microbatches(batch, features)

        def compute_part(part: Tensors, index: Tensor) -> tuple[Tensors, Tensors]:
            seed = [tf.constant(self.model.seed, tf.int32), (step * count + index).value]
            stream = RandomStream(tf.stack(seed))
            output, grads = self.model.loss_and_gradients(
                part, "train", stream, weights, count, step, self.trained
            )
            return grads, {"loss": output.loss, **output.losses, **output.reports}

        return in_microbatches(features, compute_part, batch, count)

    def _microbatches(self, batch: Dimension, features: Tensors) -> int:
        lengths = {n: x.shape.get_dim_by_name("length").size for n, x in features.items()}
        with self.model.config.active():
            return num_microbatches(batch.size, lengths, self.model.mesh.splits(batch))

    def _named(self, variable: Variable, table: Mapping[str, tf.Tensor]) -> Tensor:
        return Tensor(self.model.mesh, variable.shape, table[variable.name])
