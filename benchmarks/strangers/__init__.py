"""Pairs of folders such as strangers bring, with the truth about them."""
