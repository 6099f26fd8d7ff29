"""Items in other scripts, as UTF-8 and in the older encodings of their countries: by their words and by their shape."""

import json
from collections.abc import Callable

import pytest

from tests.gate.layouts import STRUCTURE
from tests.gate.sets import opened, rules_of

Texts = tuple[str, ...]
"""A stem and its choices, made up and harmless."""
SETS: dict[str, tuple[Texts, tuple[str, ...]]] = {
    "Russian": (
        ("Какой медный фонарь вешает перевозчик Довару над восточной тропой перед вторым колоколом?",
         "помятый фонарь Пелимо", "вязаный фонарь из павильона", "расписная кадка у мельницы", "никакого фонаря там нет"),
        ("cp1251", "koi8_r", "cp866", "iso8859_5", "mac_cyrillic"),
    ),
    "Chinese": (
        ("哪一盏铜灯笼是摆渡人多瓦鲁在第二次钟声之前挂在东边小路上的？",
         "佩利莫修好的那一盏", "玻璃亭子里的编织灯笼", "磨坊主的彩绘木桶", "那里没有任何灯笼"),
        ("gb18030", "gbk", "gb2312", "hz"),
    ),
    "Taiwan": (
        ("哪一盞銅燈籠是擺渡人多瓦魯在第二次鐘聲之前掛在東邊小路上的？",
         "佩利莫修好的那一盞", "玻璃亭子裡的編織燈籠", "磨坊主的彩繪木桶", "那裡沒有任何燈籠"),
        ("big5",),
    ),
    "Japanese": (
        ("渡し守のドバルは二番目の鐘の前に東の小道の上にどの銅のランタンを掛けますか？",
         "ペリモが直したへこんだもの", "ガラスの東屋の編んだランタン", "粉屋の塗った桶", "ランタンはまったくない"),
        ("shift_jis", "cp932", "euc_jp", "iso2022_jp"),
    ),
    "Korean": (
        ("뱃사공 도바루는 두 번째 종이 울리기 전에 동쪽 길 위에 어떤 구리 등불을 걸어 두는가?",
         "펠리모가 고친 찌그러진 등불", "유리 정자에서 가져온 등불", "방앗간 주인의 색칠한 통", "등불은 전혀 없다"),
        ("euc_kr", "cp949", "johab", "iso2022_kr"),
    ),
    "Greek": (
        ("Ποιο χάλκινο φανάρι κρεμάει ο βαρκάρης Ντοβάρου πάνω από το ανατολικό μονοπάτι πριν από τη δεύτερη καμπάνα;",
         "το χτυπημένο του Πελίμο", "ένα πλεκτό φανάρι", "ο βαμμένος κάδος", "κανένα φανάρι"),
        ("cp1253", "iso8859_7"),
    ),
    "Hebrew": (
        ("איזה פנס נחושת תולה המעבוראי דוברו מעל השביל המזרחי לפני הפעמון השני?",
         "הפנס שפלימו תיקן", "פנס סרוג מהביתן", "החבית הצבועה של הטוחן", "אין שם שום פנס"),
        ("cp1255", "iso8859_8"),
    ),
    "Arabic": (
        ("أي فانوس نحاسي يعلقه صاحب العبارة دوفارو فوق الممر الشرقي قبل الجرس الثاني؟",
         "الفانوس الذي أصلحه بيليمو", "فانوس منسوج من الجناح", "برميل الطحان الملون", "لا يوجد أي فانوس"),
        ("cp1256", "iso8859_6"),
    ),
    "Polish": (
        ("Którą miedzianą latarnię wiesza przewoźnik Dowaru nad wschodnią ścieżką przed drugim dzwonem?",
         "wgniecioną, którą naprawił Pelimo", "plecioną latarnię z pawilonu", "malowaną kadź młynarza", "żadnej latarni"),
        ("cp1250", "iso8859_2"),
    ),
    "Thai": (
        ("โคมทองแดงใดที่คนแจวเรือโดวารูแขวนไว้เหนือทางเดินด้านตะวันออกก่อนระฆังครั้งที่สอง?",
         "โคมบุบที่เปลิโมซ่อม", "โคมถักจากศาลา", "ถังทาสีของคนโม่แป้ง", "ไม่มีโคมใดเลย"),
        ("cp874", "tis_620"),
    ),
}  # fmt: skip
"""Texts of a language, and the encodings in which they are kept."""
NO_SHAPE = {"iso2022_kr"}
"""Its shift characters make it binary, which is refused as it is."""
FORMS: dict[str, Callable[[Texts], str]] = {
    "stem": lambda t: t[0],
    "note": lambda t: f"A note.\n{t[0]}\nend\n",
    "jsonl": lambda t: (
        json.dumps({"question": t[0], "choices": t[1:], "answer": 1}, ensure_ascii=False) + "\n"
    ),
    "csv": lambda t: f"question,a,b,c,d,answer\n{','.join(t)},B\n",
    "prose": lambda t: (
        t[0] + "".join(f"\n{a}) {c}" for a, c in zip("ABCD", t[1:], strict=True)) + "\nAnswer: B\n"
    ),
    "yaml": lambda t: f"question: {t[0]}\nchoices:\n" + "".join(f"  - {c}\n" for c in t[1:]) + "answer: 1\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("language", "encoding"),
    [(name, e) for name, (_, encodings) in SETS.items() for e in ("utf-8", *encodings)],
)
def test_an_item_is_refused_in_every_encoding_of_its_language(
    language: str, encoding: str, form: str
) -> None:
    texts = SETS[language][0]
    data = FORMS[form](texts).encode(encoding)
    rules = rules_of(data, opened({"set": [texts]}))
    assert rules & {"RBG301", "RBG501"}
    if form not in ("stem", "note") and encoding not in NO_SHAPE:
        assert rules & STRUCTURE


@pytest.mark.parametrize("encoding", ["cp1251", "latin-1", "gb18030", "cp1252"])
def test_harmless_text_in_an_older_encoding_is_left_alone(encoding: str) -> None:
    text = {
        "cp1251": "Лодка стоит у пруда, и никто её не трогает.",
        "gb18030": "小船停在池塘边，没有人动它。",
    }
    data = text.get(encoding, "Où est la clé du café ? Elle est ici, à côté.").encode(encoding) * 20
    assert rules_of(data, opened({"set": [SETS["Russian"][0], SETS["Chinese"][0]]})) == set()
