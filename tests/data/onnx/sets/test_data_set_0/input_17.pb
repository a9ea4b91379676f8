*@ÀF<FÆ¼DBB
float8e5m2