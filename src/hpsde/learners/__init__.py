"""Learners, by ask and tell: HPSDE and the methods that it is compared with."""
