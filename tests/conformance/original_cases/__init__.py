"""What was called in the original to get each case of fixtures/ops, said in ours."""

from original_cases import language, layers, models

FUNCTIONS = {**language.FUNCTIONS, **layers.FUNCTIONS, **models.FUNCTIONS}
"""Case to a function of its inputs by name that returns its outputs by name."""

MENDED = {**language.MENDED, **models.MENDED}
"""(case, what) to the right value, where the original's is a fault that is mended."""

REFUSED = language.REFUSED
"""Case to the beginning of the error that is raised in place of what the original did."""
