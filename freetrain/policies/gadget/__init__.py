"""GADGET (INFOCOM 2022): rings of workers, how wide and where, slot after slot, with their bandwidth reserved."""
