"""From the bytes of a content to its texts: unpacked, decoded, joined, cut in cells, folded to words."""
