B
float8e5m2J	@ÀF<FÆ¼DB