"""The fast paths of Produce, Fetch and ListOffsets: they serve frequent requests without their handlers."""
