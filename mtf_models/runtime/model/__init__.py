"""Models on a mesh, and what they are built from."""
