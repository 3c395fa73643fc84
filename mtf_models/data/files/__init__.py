"""Files of examples: TSV, CSV, JSON lines, plain text and TFRecord, compressed or not."""
