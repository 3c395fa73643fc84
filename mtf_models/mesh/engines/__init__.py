"""Engines say how the global value of a named tensor is held: on one device, a mesh, or not."""
