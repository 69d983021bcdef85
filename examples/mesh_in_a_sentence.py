"""A mesh in the simulator: one member is cut off, misses events, and catches up when it is back.

Run it with `.venv/bin/python examples/mesh_in_a_sentence.py`.
"""

from gossamer.lab.mesh import Mesh


def main() -> None:
    mesh = Mesh(brokers="abc", loggers="L")
    mesh.isolate("c")
    mesh.publish("a", 3, symbol="IBM")
    mesh.run(1.0)
    print("while c is cut off: b has", mesh.delivered("b"), "and c has", mesh.delivered("c"))
    mesh.heal()
    mesh.settle()
    print("after healing:      b has", mesh.delivered("b"), "and c has", mesh.delivered("c"))


if __name__ == "__main__":
    main()
