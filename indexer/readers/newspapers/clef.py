"""The newspapers of the CLEF ad-hoc collections, 2000-2008: ids and folders show the newspaper and so the language."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Newspaper:
    """One newspaper's collection."""

    name: str  # readable name, with the year where needed
    lang: str
    folder: str  # pattern of the folder in the distribution
    ids: str = ""  # pattern of the documents' ids; empty where ids don't identify the newspaper
    first_line_is_title: bool = False  # whether the headline has no tag and is the first line of the text


NEWSPAPERS = (
    Newspaper("Los Angeles Times 1994", "en", r"LA(TIMES)?(19)?94", r"LA\d{6}-\d{4}"),
    Newspaper("Los Angeles Times 2002", "en", r"LA(TIMES)?(20)?02", r"LA\d{8}-\d+"),
    Newspaper("Glasgow Herald", "en", r"(GLASGOW|GH)(19)?95", r"GH\d{6}-\d{6}"),
    Newspaper("Frankfurter Rundschau", "de", r"(FRANKFURTER|FR)(19)?94", r"FR9[45]\d{4}-\d{6}"),
    Newspaper("Der Spiegel", "de", r"SPIEGEL(19)?9[45]", r"SPIEGEL[\d.-]\S*"),
    Newspaper("SDA", "de", r"SDA\.?(19)?9[45]", r"SDA\.\d{6}\.\d+"),
    Newspaper("Le Monde", "fr", r"LEMONDE(19)?9[45]", r"LEMONDE\d\d-\d{6}\S*"),
    Newspaper("ATS", "fr", r"ATS\.?(19)?9[45]", r"ATS\.\d{6}\.\d+"),
    Newspaper("La Stampa", "it", r"LASTAMPA(19)?94", r"LASTAMPA\d\d-\S+"),
    Newspaper("AGZ", "it", r"AGZ\.?(19)?9[45]", r"AGZ\.\d{6}\.\d+"),
    Newspaper("EFE", "es", r"EFE(19)?9[45]", r"EFE\d{8}-\d{5}"),
    Newspaper("NRC Handelsblad", "nl", r"NRC(19)?9[45]", r"NH\d{8}-\d{4}"),
    Newspaper("Algemeen Dagblad", "nl", r"(ALGEMEEN|AD)(19)?9[45]", r"AD\d{8}-\d{4}"),
    Newspaper("Aamulehti", "fi", r"AAMU(LEHTI)?(19)?9[45]", r"AAMU\d{6,8}-\d{6}"),
    Newspaper("Tidningarnas Telegrambyrå", "sv", r"TT(19)?9[45]", first_line_is_title=True),
    Newspaper("Izvestia", "ru", r"(IZVESTIA|IZ)(19)?95"),
    Newspaper("Público", "pt", r"PUBLICO(19)?9[45]", r"PUBLICO-\d{8}-\d{3}"),
    Newspaper("Folha de São Paulo", "pt", r"FOLHA(19)?9[45]", r"FSP\d{6}-\d{3}", first_line_is_title=True),
    Newspaper("Magyar Hírlap", "hu", r"MAGYAR(20)?02"),
    Newspaper("Sega", "bg", r"SEGA(20)?02"),
    Newspaper("Standart", "bg", r"STANDART(20)?02"),
    Newspaper("Hamshahri", "fa", r"HAMSHAHRI\S*"),
)

_BY_ID = [(re.compile(paper.ids), paper) for paper in NEWSPAPERS if paper.ids]
_BY_FOLDER = [(re.compile(paper.folder, re.IGNORECASE), paper) for paper in NEWSPAPERS]


def newspaper(doc_id: str, path: Path) -> Newspaper | None:
    """The newspaper of a document, by its id, else by its file or folder; None where nothing matches.

    A pattern must match the whole id: TREC's Federal Register (``FR940104-0-00001``) is no Frankfurter Rundschau.
    """
    for pattern, paper in _BY_ID:
        if pattern.fullmatch(doc_id):
            return paper
    names = [part.split(".", 1)[0] if part == path.name else part for part in reversed(path.parts)]
    return next((paper for name in names for pattern, paper in _BY_FOLDER if pattern.fullmatch(name)), None)
