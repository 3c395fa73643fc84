"""Optimizers, learning-rate schedules and micro-batches, by named dimensions on any layout."""

from mtf_models.optimize import schedules
from mtf_models.optimize.adafactor import (
    AdafactorOptimizer,
    adafactor_decay_rate_adam,
    adafactor_decay_rate_pow,
)
from mtf_models.optimize.adam import AdamW, AdamWeightDecayOptimizer
from mtf_models.optimize.microbatch import in_microbatches, num_microbatches
from mtf_models.optimize.momentum import MomentumOptimizer
from mtf_models.optimize.optimizer import Optimizer
from mtf_models.optimize.several_rates import (
    AdafactorWithMultiLRSchedule,
    AdamWithMultiLRSchedule,
)
from mtf_models.optimize.sgd import SgdOptimizer
from mtf_models.optimize.training_step import serialize_training_step

__all__ = [
    "AdafactorOptimizer",
    "AdafactorWithMultiLRSchedule",
    "AdamW",
    "AdamWeightDecayOptimizer",
    "AdamWithMultiLRSchedule",
    "MomentumOptimizer",
    "Optimizer",
    "SgdOptimizer",
    "adafactor_decay_rate_adam",
    "adafactor_decay_rate_pow",
    "num_microbatches",
    "schedules",
    "serialize_training_step",
    "in_microbatches",
]
