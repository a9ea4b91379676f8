"""index.html: the whole report as one file that needs no network, drawn from what results.json holds."""
