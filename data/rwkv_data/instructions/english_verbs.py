"""Whether a response starts with a verb.

IFBench asks NLTK's perceptron tagger, whose weights are not ours to ship. Here the first word decides alone: forms of
the common verbs below (regular forms are made by rule), the irregular forms, auxiliaries, and unknown words of six
letters or more that end in -ing, -ed, -ize, -ise or -ify. Words that mostly are nouns at the start of a text ("Water",
"Time") are left out. So rare verbs and names of six letters in -ing can get another verdict than upstream.
"""

import re
from typing import Final

_AUXILIARIES = (
    "be am is are was were been being do does did done doing have has had having can could may might must shall should "
    "will would let let's don't doesn't didn't isn't aren't can't won't"
)
_REGULAR = """
abandon absorb accept access accomplish account achieve acknowledge acquire act adapt add address adjust administer
admire admit adopt advance advise advocate affect affirm aim allocate allow alter alternate amplify analyse analyze
announce answer anticipate apologize appear apply appoint appreciate approach approve argue arrange arrive ask
assemble assert assess assign assist assume assure attach attain attempt attend attract audit avoid award bake balance
base beg behave believe belong bind blend block boil boost borrow bounce brainstorm brush bundle calculate call calm
cancel capture care carry celebrate challenge change charge chase check chop claim clarify classify clean clear click
climb close coat collaborate collect combine comfort command comment commit communicate compare compete compile
complain complete compose compute conceive concentrate conclude conduct configure confirm connect conquer consider
consist construct consult consume contact contain continue contribute control convert convey convince cook coordinate
copy correct count cover craft create cross cultivate customize dance debug decide declare decline decorate decrease
dedicate define delay delegate delete deliver demand demonstrate deny depend deploy describe deserve design desire
destroy detect determine develop devise differ dip disable disagree discover discuss display distribute dive divide
document double download draft drain dream dress drop dry duplicate dye earn edit educate elevate eliminate embark
embrace emphasize employ empower enable encourage end engage enhance enjoy ensure enter entertain escape establish
estimate evaluate examine exceed exchange excite execute exercise exist expand expect experience experiment explain
explore export expose express extend extract face facilitate fail fasten fear fetch file fill filter finalize finish
fit fix float flow focus fold follow force formulate foster frame fry fulfil fulfill function fund gain gather
generate grab grant greet grill grip guarantee guard guess guide hammer handle happen harness hate heal heat help
highlight hike hire hope host hunt identify ignite ignore illustrate imagine immerse implement import impress improve
include incorporate increase indicate influence inform initialize inject innovate insert inspect inspire install
instruct integrate intend interact interpret introduce invent invest investigate invite involve iron issue join
journey judge jump justify kick kill kiss knock label land last laugh launch lean learn level leverage lift limit link
list listen live load locate lock log look loop love lower maintain manage map march mark master match matter maximize
measure melt mention merge migrate minimize mix modify monitor motivate mount move multiply navigate need negotiate
note notice observe obtain occur offer open operate optimize order organise organize outline overlook own pack paint
participate pass paste perform permit persuade pick pin place plan plant play plug plunge point ponder pop possess
pour practice praise pray prefer prepare present preserve press prevent print prioritize proceed process produce
program promise promote prompt propose protect prove provide publish pull pump punish purchase pursue push qualify
question quote race raise rank reach react realise realize receive recite recognize recommend record recover recruit
recycle reduce refer reflect refresh refuse regard register reject relate relax release rely remain remember remind
remove rename render renew rent repair repeat replace reply report represent request require rescue research reserve
resist resolve respect respond restart restore restrict result retain retire retrieve retry return reveal reverse
review revise reward rinse risk roast rotate rub ruin rule rush save scale scan schedule score scrape scratch scrub
search season secure select separate serve settle shape share shift shop shout show sign simmer simplify simulate sip
skip slice slip smile sort sound spark specialize specify spice sprinkle stack start state stay steam step stir stop
store strengthen stretch strip strive structure study submit subscribe substitute succeed suffer suggest suit
summarise summarize supply support suppose surprise surround survive suspect sustain switch tackle talk target taste
tend test thank tie touch track trade train transfer transform translate transport travel treat trigger trim trust try
tune turn twist type uncover unlock unveil update upgrade upload urge use utilise utilize validate value vary verify
view visit visualize vote wait walk want warn wash waste watch wave weigh welcome whip whisk whisper wipe wish witness
wonder work worry wrap yell yield zoom
"""
_IRREGULAR = """
arise arose arisen become became becoming begin began begun beginning bend bent bite bit bitten blow blew blown break
broke broken bring brought build built burn burnt buy bought catch caught choose chose chosen choosing come came
coming cost cut cutting dig dug digging draw drew drawn drink drank drunk drive drove driven driving eat ate eaten
fall fell fallen feed fed feel felt fight fought find found fly flew flown forget forgot forgotten forgive forgave
freeze froze frozen get got gotten getting give gave given giving go goes went gone going grow grew grown hang hung
hear heard hide hid hidden hold held keep kept know knew known lay laid lead led leave left leaving lend lent lie
lying lose lost losing make made making mean meant meet met pay paid put putting quit read ride rode ridden ring rang
run ran running say said says see saw seen seek sought sell sold send sent set setting shake shook shaken shine shone
shoot shut shutting sing sang sung sink sank sit sat sitting sleep slept speak spoke spoken spend spent spin spun
split splitting spread stand stood steal stole stick stuck strike struck swim swam swimming swing swung take took
taken taking teach taught tear tore tell told think thought throw threw thrown understand understood undertake
undertook wake woke wear wore worn win won winning write wrote written writing
"""


def _forms(verb: str) -> set[str]:
    """Return the regular forms of a verb, with and without a doubled final letter."""
    stem = verb.removesuffix("e")
    forms = {verb, f"{stem}ed", f"{stem}ing", f"{verb}s", f"{verb}ing"}
    if re.search(r"(s|sh|ch|x|z|o)$", verb):
        forms.add(f"{verb}es")
    if re.search(r"[^aeiou]y$", verb):
        forms |= {f"{verb[:-1]}ies", f"{verb[:-1]}ied"}
    if re.search(r"[^aeiou][aeiou][^aeiouwxy]$", verb):
        forms |= {f"{verb}{verb[-1]}ing", f"{verb}{verb[-1]}ed"}
    return forms


def _all_forms() -> frozenset[str]:
    forms = set(_AUXILIARIES.split())
    for verb in _REGULAR.split():
        forms |= _forms(verb)
    for word in _IRREGULAR.split():
        forms |= {word, f"{word}s", f"{word}es", f"{word}ing", f"{word.removesuffix('e')}ing"}
    return frozenset(forms)


VERB_FORMS: Final = _all_forms()
_VERB_ENDING = re.compile(r"[a-z]{3,}(?:ing|ed|ize|ise|ify|izes|ises|ifies)")


def is_verb(word: str) -> bool:
    """Whether a word at the start of a text counts as a verb."""
    lower = word.lower()
    return lower in VERB_FORMS or (len(lower) >= 6 and _VERB_ENDING.fullmatch(lower) is not None)
