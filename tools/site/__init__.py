"""The documentation site: the pages of docs/, and reference pages that are generated from the code."""
