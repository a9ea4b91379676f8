"""One pair in detail: every element with both values and its errors, as the vendor's tools write them."""
