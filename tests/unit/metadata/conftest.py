"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest

from metadata.features import METADATA_VERSION
from metadata.image import MetadataImage


@pytest.fixture
def image() -> MetadataImage:
    """Return an image of a cluster without objects."""
    return MetadataImage(features={METADATA_VERSION: 30})
