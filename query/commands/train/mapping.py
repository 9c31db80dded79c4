"""``dragoman train mapping``: learn maps between languages from documents about the same concepts."""

from pathlib import Path
from typing import get_args

import click

from encoders.console import Alert, Console, Note
from encoders.languages import normalise
from encoders.phrases import counted
from indexer.training.mapping_sources import AlignedSources
from indexer.training.mapping_training import Linear, MappingPlan, learn, require_writable, write
from query.commands.options.common_options import output_options, place_options, seed_option
from query.commands.options.help import Command
from query.commands.options.option_types import PATH, Number, choice_option
from query.commands.options.source_options import aligned_options, reading_options


@click.command("mapping", cls=Command)
@click.option("-o", "--output", type=PATH, required=True, help="Folder to make.")
@choice_option(
    "--method", get_args(Linear), "lca: a map a pair of languages. lcc: codes of all languages.", "map_method"
)
@click.option("--ridge", type=Number(0), help="0: the pseudo-inverse.  [default: by held-out concepts]")
@choice_option("--shrink", ["itself", "nothing"], "What a ridge draws LCA's maps to.")
@click.option(
    "--pivot",
    default="",
    metavar="LANG",
    help="Language that LCA's maps go through.  "
    "[default: none for up to 12 languages, else the language with most concepts]",
)
@click.option(
    "--dimensions",
    type=click.IntRange(1),
    help="Dimensions of LCC's codes, or principal axes that LCA keeps.  [default: 200 dimensions, all axes]",
)
@seed_option("Seed of the held-out concepts.")
@reading_options
@place_options
@aligned_options
@output_options
def command(
    output: Path,
    map_method: Linear,
    ridge: float | None,
    shrink: str,
    pivot: str,
    dimensions: int | None,
    seed: int,
    aligned: AlignedSources,
    console: Console,
) -> None:
    """Learn maps between the languages of SOURCEs, whose documents have the field `concept`, in seconds.

    The concept is the same for translations of one another. Two languages must share ten; from about twenty on a map
    gains. FOLDER is then ranked with: dragoman calibrate -c NAME --map FOLDER. No document is encoded again. Without
    SOURCEs, -c NAME takes the vectors that a collection holds. dragoman mates --map FOLDER measures a mapping
    elsewhere.
    """
    require_writable(output)
    documents, spec = aligned.load(console)
    plan = MappingPlan(map_method, ridge, shrink == "itself", normalise(pivot) if pivot else "", dimensions, seed)
    learnt = learn(documents, spec, plan)
    maps, about, best = learnt.maps, learnt.maps.about, learnt.tried[learnt.ridge]
    write(maps, output)
    values = {
        "tried": {f"{ridge:g}": mates for ridge, mates in learnt.tried.items()},
        "centred": learnt.centred,
        "pairs": {f"{lang} → {other_lang}": count for (lang, other_lang), count in learnt.pairs.items()},
        "remarks": learnt.remarks,
    }
    outcome = (
        f"{counted(about['concepts'], 'concept')}, {min(learnt.pairs.values()):,} to "
        f"{max(learnt.pairs.values()):,} a pair of {len(about['languages'])} languages; mates of held-out concepts "
        f"found first: {best.rate:.3f} (means taken out only: {learnt.centred.rate:.3f}), ridge {learnt.ridge:g}"
    )
    use = f"dragoman calibrate -c {aligned.collection or 'NAME'} --map {output}"
    console.show(
        {"folder": output, **about, "model": maps.model, **values},
        [*map(Alert, learnt.remarks), Note(f"{outcome}; use it: {use}"), str(output)],
    )
