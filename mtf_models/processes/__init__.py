"""Many processes that run one program together: who they are, and what they tell each other.

The processes talk over connections of their own, beside TensorFlow, which waits for ever for a
process that never comes. Free of TensorFlow, so that they meet before it is imported.
"""

from mtf_models.processes.active import current, taking_part
from mtf_models.processes.cluster import Cluster
from mtf_models.processes.group import Group

__all__ = ["Cluster", "Group", "current", "taking_part"]
