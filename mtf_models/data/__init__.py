"""Tasks, packing and exactly resumable input, on top of SeqIO and TensorFlow Datasets.

The modules import SeqIO, which takes seconds; this one imports nothing.
"""
