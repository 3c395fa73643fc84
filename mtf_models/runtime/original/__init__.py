"""The original's command line and its `MtfModel`, on runs of this package."""
