package nomba

import (
	"cmp"
	"strings"

	"ajo/internal/identity"
)

// The bank's rule for the holder name of a virtual account: letters and spaces, 8 to 64 characters.
const (
	minHolder = 8
	maxHolder = 64
	padding   = "Account"  // put behind a name that is too short
	nameless  = "Customer" // stands for a name without a single Latin letter
)

// holderName fits a name to the bank's rule: plain Latin letters and single spaces, 8 to 64
// characters. The rule is, in this order:
//
//  1. "&" becomes "and"; accents fall away and other letters are written plainly
//     ([identity.Words]); apostrophes vanish; whatever else is no letter becomes a space, and
//     spaces are joined.
//  2. Nothing left: "Customer".
//  3. Shorter than 8: " Account" is put behind it ("Ade" → "Ade Account").
//  4. Longer than 64: cut after the last whole word that fits; where that would leave fewer than 8,
//     after 64 letters.
//
// Fitting a fitted name changes nothing.
func holderName(s string) string {
	name := cmp.Or(strings.Join(identity.Words(strings.ReplaceAll(s, "&", " and ")), " "), nameless)
	if len(name) < minHolder {
		name += " " + padding
	}
	if len(name) <= maxHolder {
		return name
	}
	if cut := strings.LastIndexByte(name[:maxHolder+1], ' '); cut >= minHolder {
		return name[:cut]
	}
	return strings.TrimSpace(name[:maxHolder])
}
