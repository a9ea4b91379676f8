"""Every output of a comparison: results.json, the terminal, index.html, summary.md, the vendor's tables, CI."""
