"""Epochs of ownership: plain numbers that only grow, also over a restore of the global plane's store."""

# A restored global plane has forgotten epochs that it gave out: the epoch of its store in the upper bits makes every
# epoch after the restore greater than all before it.
_COUNTER_BITS = 32
_COUNTER = (1 << _COUNTER_BITS) - 1
# Of a job that a cluster admitted by itself: below every epoch that a global plane gives out.
LOCAL_EPOCH = 1


def newborn(store_epoch: int) -> int:
    """The epoch of a job that was just submitted to a global plane whose store has this epoch: no cluster had it."""
    return store_epoch << _COUNTER_BITS


def raised(epoch: int, store_epoch: int) -> int:
    """The epoch of the next offer."""
    return max(epoch, newborn(store_epoch)) + 1


def before_restore(epoch: int, store_epoch: int) -> bool:
    """Whether only an earlier store of the global plane, or a cluster by itself, can have given it out."""
    return epoch < newborn(store_epoch)


def shown(epoch: int) -> str:
    """For people, as fences are shown: "1.3"."""
    return f"{epoch >> _COUNTER_BITS}.{epoch & _COUNTER}"
