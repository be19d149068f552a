package identity

import (
	"strings"
	"testing"
	"unicode"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Ada Obi":                         "Ada Obi",
		"  Ada \t Obi\n":                  "Ada Obi",
		"Adébáyọ̀ Ọláníyì":                "Adebayo Olaniyi",
		"Ṣadé":                            "Sade",
		"Ɗan Ƙano ɓaƴe":                   "Dan Kano baye",
		"O'Neil O’Neil":                   "ONeil ONeil",
		"Al-Amin":                         "Al Amin",
		"A.B. Okafor":                     "A B Okafor",
		"Shop 24":                         "Shop",
		"Straße Łukasz Ærø":               "Strasse Lukasz AEro",
		"ﬁne Ｗｉｄｅ":                        "fine Wide",
		"zero\u200bwidth":                 "zerowidth",
		"محمد Musa":                       "Musa",
		"名前":                              "",
		"":                                "",
		"\xff\xfeAda":                     "Ada",
		"a\x00b":                          "a b",
		strings.Repeat("é", 2*1024) + "!": strings.Repeat("e", 512),
	} {
		if got := strings.Join(Words(in), " "); got != want {
			t.Errorf("Words(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNamesAgree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		given, first, last string
		want               bool
	}{
		{"Ada Obi", "ADA", "OBI", true},
		{"obi ada", "Ada", "Obi", true},
		{"OBI, Ada Ngozi", "ADA", "OBI", true},
		{"Mrs Ada Ngozi Obi-Eze", "Ada", "Obi", true},
		{"Adébáyọ̀ Ọláníyì", "ADEBAYO", "OLANIYI", true},
		{"Adebayo Olaniyi", "Adébáyọ̀", "Ọláníyì", true},
		{"Shehu Dan Ɗanladi", "SHEHU", "DANLADI", true},
		{"Musa Abdul-Rahman", "Musa", "Abdulrahman", true},
		{"Musa Abdulrahman", "Musa", "Abdul Rahman", true},
		{"Abdul Musa Rahman", "Musa", "Abdul Rahman", true},
		{"Ifeoma O'Brien", "Ifeoma", "OBRIEN", true},
		{"Musa Musa", "Musa", "Musa", true},
		{"Ada Ngozi Obi", "Ada Ngozi", "Obi", true},

		{"Musa", "Musa", "Musa", false}, // one word cannot be both names
		{"Ada Obi", "Ada Ngozi", "Obi", false},
		{"Ada Obi", "Ada", "Okafor", false},
		{"Ada Obi", "Ngozi", "Obi", false},
		{"A Obi", "Ada", "Obi", false},
		{"Adaobi", "Ada", "Obi", false},
		{"Ada Obiora", "Ada", "Obi", false},
		{"Ada", "Ada", "", false},
		{"Ada Obi", "", "Obi", false},
		{"Ada Obi", "", "", false},
		{"", "Ada", "Obi", false},
		{"Ada Obi", "名", "Obi", false},
		{strings.Repeat("X ", 20) + "Ada Obi", "Ada", "Obi", false}, // not read that far
	} {
		if got := NamesAgree(tt.given, tt.first, tt.last); got != tt.want {
			t.Errorf("NamesAgree(%q, %q, %q) = %v", tt.given, tt.first, tt.last, got)
		}
	}
}

func TestResultNames(t *testing.T) {
	t.Parallel()
	for r, want := range map[Result]string{0: "none", Match: "match", Mismatch: "mismatch", NoSuch: "no_such", 9: "none"} {
		if got := r.String(); got != want {
			t.Errorf("%d: %q", r, got)
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add("Adébáyọ̀ O'Neil 24")
	f.Add("\xff名\u200d")
	f.Fuzz(func(t *testing.T, s string) {
		words := Words(s)
		for _, w := range words {
			if w == "" || strings.ContainsFunc(w, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) }) {
				t.Fatalf("Words(%q) has %q", s, w)
			}
		}
		if again := Words(strings.Join(words, " ")); len(s) <= 256 && strings.Join(again, " ") != strings.Join(words, " ") {
			t.Fatalf("not stable: %q then %q", words, again)
		}
	})
}

func FuzzNamesAgree(f *testing.F) {
	f.Add("Ada Obi", "Ada", "Obi")
	f.Add("a a a a a a a a a a a a a a a a", "a a a a", "aaaa")
	f.Fuzz(func(t *testing.T, given, first, last string) {
		if NamesAgree(given, first, last) != NamesAgree(strings.ToUpper(given), first, last) && isASCII(given) {
			t.Fatalf("case matters: %q %q %q", given, first, last)
		}
		if NamesAgree(given, "", last) || NamesAgree(given, first, "") {
			t.Fatal("a record without a name agreed")
		}
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}
