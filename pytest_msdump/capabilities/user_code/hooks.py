"""Code of a user, which runs only when its folder was named on the command line."""

COMPARE_OPTIONS = {
    "user_code": {
        "flags": ("-custom", "--user-code"),
        "group": "running",
        "metavar": "DIR",
        "help": "run your own code: DIR/format_convert/convert_X_to_Y.py and DIR/algorithm/alg_NAME.py",
        "after": "table_csv",
    },
}

OFFERS = {"user_code": "pytest_msdump.capabilities.user_code.algorithms"}
