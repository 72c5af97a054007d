"""Languages as clients name them: ``DE``, ``de-DE``, ``EN-US``, ``deu``, ``auto``."""

from collections.abc import Sequence

from simplemma import langdetect

from wholedoc.corpus.documents import primary_language

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian",
    "fi": "Finnish", "fr": "French", "ga": "Irish", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "mt": "Maltese", "nb": "Norwegian",
    "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sk": "Slovak", "sl": "Slovenian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian",
    "zh": "Chinese",
}  # fmt: skip
_SHORT = {  # for codes of three letters
    "ara": "ar", "bul": "bg", "cat": "ca", "ces": "cs", "cze": "cs", "dan": "da",
    "deu": "de", "ger": "de", "ell": "el", "gre": "el", "eng": "en", "spa": "es",
    "est": "et", "fin": "fi", "fra": "fr", "fre": "fr", "gle": "ga", "heb": "he",
    "hin": "hi", "hrv": "hr", "hun": "hu", "ind": "id", "ita": "it", "jpn": "ja",
    "kor": "ko", "lit": "lt", "lav": "lv", "mlt": "mt", "nob": "nb", "nld": "nl",
    "dut": "nl", "pol": "pl", "por": "pt", "ron": "ro", "rum": "ro", "rus": "ru",
    "slk": "sk", "slo": "sk", "slv": "sl", "swe": "sv", "tur": "tr", "ukr": "uk",
    "zho": "zh", "chi": "zh",
}  # fmt: skip
_ENOUGH = 2000  # characters that a language is guessed from


def primary(code: str) -> str:
    """The language of a code, without country or script: ``de`` for ``DE-AT`` and ``deu``."""
    language = primary_language(code)
    return _SHORT.get(language, language)


def name_of(code: str) -> str:
    """The English name of a language; its code where we do not know any."""
    return NAMES.get(primary(code), code)


def detect(text: str, languages: Sequence[str]) -> list[tuple[str, float]]:
    """The languages that a text may be in, of some, the likeliest first; shares sum up to 1.

    With words of none of them, or languages whose words are not known, all are as likely.
    """
    even = [(code, 1 / len(languages)) for code in languages]
    if len(languages) < 2 or not text.strip():
        return even
    try:
        found = dict(langdetect(text[:_ENOUGH], lang=tuple(languages)))
    except ValueError:  # a language that the lists of words do not have
        return even
    shares = [(code, float(found.get(code, 0.0))) for code in languages]
    total = sum(share for _, share in shares)
    if not total:
        return even
    return sorted(((code, share / total) for code, share in shares), key=lambda each: -each[1])
