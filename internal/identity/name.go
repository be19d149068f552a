package identity

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

const (
	maxNameBytes = 1024 // what is looked at of a name
	maxNameWords = 16   // the same, in words; NamesAgree tries subsets of them
)

// letters are the letters that Unicode does not take apart into a Latin letter and a mark: Hausa's
// hooked letters first.
var letters = map[rune]string{
	'ɓ': "b", 'Ɓ': "B", 'ɗ': "d", 'Ɗ': "D", 'ƙ': "k", 'Ƙ': "K", 'ƴ': "y", 'Ƴ': "Y",
	'ŋ': "ng", 'Ŋ': "Ng", 'ǝ': "e", 'Ǝ': "E", 'ə': "e", 'Ə': "E", 'ɛ': "e", 'Ɛ': "E", 'ɔ': "o", 'Ɔ': "O",
	'ʋ': "v", 'Ʋ': "V", 'ƒ': "f", 'Ƒ': "F", 'ɣ': "g", 'Ɣ': "G", 'ɖ': "d", 'Ɖ': "D",
	'ß': "ss", 'ẞ': "SS", 'æ': "ae", 'Æ': "AE", 'œ': "oe", 'Œ': "OE", 'ø': "o", 'Ø': "O", 'đ': "d", 'Đ': "D",
	'ð': "d", 'Ð': "D", 'þ': "th", 'Þ': "Th", 'ł': "l", 'Ł': "L", 'ħ': "h", 'Ħ': "H", 'ı': "i",
}

// Words takes a name apart into words of plain Latin letters (A–Z, a–z), in their order and case.
//
// Accents and under-dots fall away (Adébáyọ̀ → Adebayo), letters that have no plain form are
// written out (ɗ → d, ß → ss), apostrophes vanish (O'Neil → ONeil), and whatever else is no such
// letter separates words. At most the first 1,024 bytes are read; the answer may be empty.
func Words(name string) []string {
	if len(name) > maxNameBytes {
		name = name[:maxNameBytes]
	}
	var plain strings.Builder
	for _, r := range norm.NFKD.String(strings.ToValidUTF8(name, " ")) {
		switch {
		case r <= unicode.MaxASCII && unicode.IsLetter(r):
			plain.WriteRune(r)
		case letters[r] != "":
			plain.WriteString(letters[r])
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm), strings.ContainsRune("'`´‘’‛′", r):
			// A mark on the letter before it, something invisible, or an apostrophe: the word goes
			// on.
		default:
			plain.WriteByte(' ')
		}
	}
	return strings.Fields(plain.String())
}

// NamesAgree reports whether the name that somebody gave can be that of the record's holder.
//
// It can when the record's first and last name both occur in the given name, in any order, each in
// words of its own: letter case, accents, apostrophes, hyphens, titles and further (middle) names
// make no difference. A name of the record that has several words needs all of them; it may also be
// written together, or a single one apart (Abdulrahman, Abdul-Rahman, Abdul Rahman). Initials and
// short forms do not count, and a record without a first or a last name agrees with nothing: a
// person then decides, which costs a day, where a wrong approval costs more.
func NamesAgree(given, first, last string) bool {
	words := fold(given)
	if len(words) > maxNameWords {
		words = words[:maxNameWords]
	}
	for _, f := range places(words, fold(first)) {
		for _, l := range places(words, fold(last)) {
			if f&l == 0 {
				return true
			}
		}
	}
	return false
}

func fold(name string) []string {
	words := Words(name)
	for i := range words {
		words[i] = strings.ToLower(words[i])
	}
	return words
}

// places returns every way in which part occurs in words, each as the set of the word positions
// that it takes up.
func places(words, part []string) []uint32 {
	if len(part) == 0 || len(part) > maxNameWords {
		return nil
	}
	var found []uint32
	joined := strings.Join(part, "")
	for i := range words { // a run of neighbouring words that spells the part
		run, set := "", uint32(0)
		for j := i; j < len(words) && len(run) < len(joined); j++ {
			run += words[j]
			set |= 1 << j
			if run == joined {
				found = append(found, set)
			}
		}
	}
	if set, ok := scattered(words, part); ok {
		found = append(found, set)
	}
	return found
}

// scattered finds each word of part somewhere in words, the first free place for each.
func scattered(words, part []string) (uint32, bool) {
	var set uint32
	for _, p := range part {
		at := -1
		for i, w := range words {
			if w == p && set&(1<<i) == 0 {
				at = i
				break
			}
		}
		if at < 0 {
			return 0, false
		}
		set |= 1 << at
	}
	return set, true
}
