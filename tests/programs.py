"""Programs that tests run as jobs."""

# As `torch.distributed` does with `env://`: rank 0 listens, the others come, and the sum of all, `total`, goes back.
ALL_REDUCE = """
import json, os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(where)
    peers = [server.accept()[0] for _ in range(size - 1)]
    total = 1 + sum(int.from_bytes(peer.recv(4, socket.MSG_WAITALL), "big") for peer in peers)
    for peer in peers:
        peer.sendall(total.to_bytes(4, "big"))
    with open(os.environ["ARES_RESULT_FILE"], "w") as file:
        json.dump({"sum": total, "attempt": int(os.environ["ARES_ATTEMPT"])}, file)
else:
    while True:
        try:
            master = socket.create_connection(where)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    master.sendall((rank + 1).to_bytes(4, "big"))
    total = int.from_bytes(master.recv(4, socket.MSG_WAITALL), "big")
"""
