"""The former name of `tirstep.transforms.passes`; it goes with the next version."""

from .tir import make_former_names

_HOMES = {
    "passes": (
        "PIPELINE",
        "DropImpliedConditions",
        "DropRedundantBarriers",
        "DropThreadDimensions",
        "SplitGuardedVectors",
    ),
    "pass_options": ("set_pipeline",),
    "reduction": ("register_reducer",),
}
__getattr__ = make_former_names(
    __name__,
    {
        "find_pipeline": "tirstep.transforms.passes.get_pipeline",
        **{
            name: f"tirstep.transforms.{home}.{name}"
            for home, names in _HOMES.items()
            for name in names
        },
    },
)
