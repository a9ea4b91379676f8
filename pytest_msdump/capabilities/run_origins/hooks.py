"""Whether two runs had the same inputs, weights and graph, by what their manifests say."""

OFFERS = {"origins": "pytest_msdump.capabilities.run_origins.digests"}
