"""What is told of a comparison: results.json, ops.csv, the text of a failure, the header and the summary."""
