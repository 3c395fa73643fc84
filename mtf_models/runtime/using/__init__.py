"""What a trained model is for: evaluation, decoding, scores, export."""
