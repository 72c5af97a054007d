"""The equations of the paper, one home each."""
