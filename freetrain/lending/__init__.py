"""Lending: what may be lent, to whom, and what must be given back. Pure: facts and memory go in and come out."""
