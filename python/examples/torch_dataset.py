"""The rows of a store as a PyTorch data set that gathers a batch in one call.

Each process that reads a row opens the store itself, because a store may not be used across a fork.
It opens it for reading only. So a loader may have any number of workers, forked or spawned, and the
program may have looked at rows before. Meanwhile no process may have the store open for writing:

    data = Rows(path, ids, shape=768)
    print(data[0].mean())
    for batch in DataLoader(data, batch_size=4096, num_workers=2, persistent_workers=True):
        ...

One call keeps all reads of a batch in flight, so more workers need not read faster. Each worker
has an index and a memory budget of its own. To gather batches ahead without a worker, gather them
in a thread: the call releases the interpreter's lock.

A sampler of batches keeps each batch one tensor, of shape (n, 768), and no row is copied again:

    DataLoader(rows, sampler=BatchSampler(RandomSampler(rows), 4096, False), batch_size=None)
"""
import numpy
import torch

import engine_race


class Rows(torch.utils.data.Dataset):
    def __init__(self, path, ids, **options):
        self.path, self.ids, self.store = path, numpy.asarray(ids), None
        self.options = {"dtype": "float32", **options}

    def __getstate__(self):  # for a worker that is spawned
        return {**self.__dict__, "store": None}

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, at):  # an index, or a list of them
        if self.store is None or self.store.closed:  # as it is in a worker that is forked
            self.store = engine_race.open(self.path, mode="r", **self.options)
        rows = self.store.read_many(numpy.ravel(self.ids[at]))
        return torch.from_numpy(rows.reshape(*numpy.shape(at), *rows.shape[1:]))

    def __getitems__(self, indices):
        return list(self[indices])
