package fakebank

import (
	"hash/fnv"
	"net/http"
	"strings"
)

// ListedBank is a bank that payouts can go to.
type ListedBank struct {
	Code string `json:"code"` // 3–6 digits
	Name string `json:"name"`
}

// Banks are the banks that payouts can go to, by name.
var Banks = []ListedBank{
	{"044", "Access Bank"},
	{"023", "Citibank Nigeria"},
	{"050", "Ecobank Nigeria"},
	{"51318", "Fairmoney Microfinance Bank"},
	{"070", "Fidelity Bank"},
	{"011", "First Bank of Nigeria"},
	{"214", "First City Monument Bank"},
	{"103", "Globus Bank"},
	{"058", "Guaranty Trust Bank"},
	{"301", "Jaiz Bank"},
	{"082", "Keystone Bank"},
	{"50211", "Kuda Microfinance Bank"},
	{"303", "Lotus Bank"},
	{"50515", "Moniepoint Microfinance Bank"},
	{BankCode, BankName},
	{"107", "Optimus Bank"},
	{"999992", "OPay"},
	{"999991", "PalmPay"},
	{"104", "Parallex Bank"},
	{"076", "Polaris Bank"},
	{"105", "PremiumTrust Bank"},
	{"101", "Providus Bank"},
	{"106", "Signature Bank"},
	{"221", "Stanbic IBTC Bank"},
	{"068", "Standard Chartered Bank"},
	{"232", "Sterling Bank"},
	{"100", "SunTrust Bank"},
	{"302", "TAJ Bank"},
	{"032", "Union Bank of Nigeria"},
	{"033", "United Bank for Africa"},
	{"215", "Unity Bank"},
	{"566", "VFD Microfinance Bank"},
	{"035", "Wema Bank"},
	{"057", "Zenith Bank"},
}

var bankIndex = func() map[string]int {
	index := make(map[string]int, len(Banks))
	for i, b := range Banks {
		index[b.Code] = i
	}
	return index
}()

// codeOf is the code of a bank by its name, or "".
func codeOf(name string) string {
	for _, b := range Banks {
		if b.Name == name {
			return b.Code
		}
	}
	return ""
}

// unknownPrefix begins the account numbers that no bank knows.
const unknownPrefix = "000"

// holders are account numbers with a fixed holder at every bank, unless somebody has paid in from
// the account under another name, who then holds it. Any other ten digits have a name
// made from the bank code and the number, always the same one, except that numbers beginning with
// 000 are unknown.
var holders = map[string]string{
	"0123456789": "AMINA BELLO",
	"1234567890": "CHIDI OKEKE",
	"2222222222": "TUNDE ADEYEMI",
}

var (
	givenNames  = []string{"ADA", "BOLA", "CHIKA", "DAYO", "EFE", "FATIMA", "GARBA", "HALIMA", "IFE", "KEMI", "MUSA", "NGOZI", "OBI", "SADE", "UCHE", "ZAINAB"}
	familyNames = []string{"ABUBAKAR", "ADELEKE", "BALOGUN", "DANJUMA", "EZE", "IBRAHIM", "LAWAL", "MOHAMMED", "NWANKWO", "OGUNLEYE", "OJO", "OKORO", "SALAMI", "UMAR", "USMAN", "YUSUF"}
)

// listBanks serves GET /v1/transfers/banks.
func (b *Bank) listBanks(c *call) answer {
	if c.does(Results) {
		return good(map[string]any{"results": Banks})
	}
	return good(Banks)
}

// lookup serves POST /v1/transfers/bank/lookup.
func (b *Bank) lookup(c *call) answer {
	var in struct{ AccountNumber, BankCode string }
	if a, ok := c.decode(&in); !ok {
		return a
	}
	switch c.plan.rule.Do {
	case NotFound:
		return noSuchHolder
	case NotFoundCode:
		return refused("01", "Account not found")
	case Empty:
		return good(nil)
	}
	if _, ok := bankIndex[in.BankCode]; !ok {
		return refused("02", "Unknown bank code")
	}
	if len(in.AccountNumber) != 10 || !allDigits(in.AccountNumber) {
		return refused("02", "accountNumber must be 10 digits")
	}
	name, ok := b.holder(in.BankCode, in.AccountNumber)
	if !ok {
		return noSuchHolder
	}
	return good(map[string]string{"accountNumber": in.AccountNumber, "accountName": name})
}

var noSuchHolder = failed(http.StatusNotFound, "404", "Account not found")

// holder is the name that a lookup of a destination account gives, or false when no bank knows the
// number.
func (b *Bank) holder(bankCode, number string) (string, bool) {
	if strings.HasPrefix(number, unknownPrefix) {
		return "", false
	}
	if bankCode == BankCode {
		if a, ok := b.Account(number); ok {
			return "Nomba/" + a.Name, true
		}
	}
	if name, ok := b.books.lastPayer(bankCode, number); ok {
		return name, true
	}
	if name, ok := holders[number]; ok {
		return name, true
	}
	h := fnv.New64a()
	h.Write([]byte(bankCode + number))
	n := mix(h.Sum64())
	return givenNames[n%16] + " " + familyNames[n/16%16], true
}
