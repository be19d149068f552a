package statement

import (
	"cmp"
	"encoding/xml"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/money"
	"ajo/ledger"
)

// camtSpace is the version of ISO 20022's bank-to-customer statement that [Camt] writes.
const camtSpace = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"

// Camt writes the sheets as one camt.053 message, for programs that keep books: a statement for
// each account. Entries under review are pending and in no balance. Of all others the opening and
// the closing balance differ by their sum: both are what is known when the file is made.
func Camt(w io.Writer, made Made, sheets ...Sheet) error {
	m := camtDocument{Space: camtSpace}
	m.Message.Header = camtHeader{ID: camtID(uuid.Must(uuid.NewV7())), Made: inLagos(made.At)}
	if made.Test {
		m.Message.Header.More = testData
	}
	for i, s := range sheets {
		m.Message.Statements = append(m.Message.Statements, s.camt(m.Message.Header.ID, i+1, made.At))
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	return e.Encode(m)
}

type camtDocument struct {
	XMLName xml.Name `xml:"Document"`
	Space   string   `xml:"xmlns,attr"`
	Message struct {
		Header     camtHeader      `xml:"GrpHdr"`
		Statements []camtStatement `xml:"Stmt"`
	} `xml:"BkToCstmrStmt"`
}

type camtHeader struct {
	ID   string `xml:"MsgId"`
	Made string `xml:"CreDtTm"`
	More string `xml:"AddtlInf,omitempty"`
}

type camtStatement struct {
	ID       string        `xml:"Id"`
	Number   int           `xml:"ElctrncSeqNb"`
	Made     string        `xml:"CreDtTm"`
	From     string        `xml:"FrToDt>FrDtTm"`
	To       string        `xml:"FrToDt>ToDtTm"`
	Account  camtAccount   `xml:"Acct"`
	Balances []camtBalance `xml:"Bal"`
	Entries  []camtEntry   `xml:"Ntry"`
}

type camtAccount struct {
	Number   string `xml:"Id>Othr>Id"`
	Currency string `xml:"Ccy"`
	Name     string `xml:"Nm"`
	Owner    string `xml:"Ownr>Nm,omitempty"`
	Bank     string `xml:"Svcr>FinInstnId>Nm,omitempty"`
}

type camtBalance struct {
	Code      string     `xml:"Tp>CdOrPrtry>Cd"`
	Amount    camtAmount `xml:"Amt"`
	Direction string     `xml:"CdtDbtInd"`
	At        string     `xml:"Dt>DtTm"`
}

type camtAmount struct {
	Currency string `xml:"Ccy,attr"`
	Value    string `xml:",chardata"`
}

type camtEntry struct {
	Ref       string      `xml:"NtryRef"`
	Amount    camtAmount  `xml:"Amt"`
	Direction string      `xml:"CdtDbtInd"`
	Reversal  bool        `xml:"RvslInd,omitempty"`
	Status    string      `xml:"Sts>Cd"`
	Booked    string      `xml:"BookgDt>DtTm"`
	BankRef   string      `xml:"AcctSvcrRef,omitempty"`
	Domain    string      `xml:"BkTxCd>Domn>Cd"`
	Family    string      `xml:"BkTxCd>Domn>Fmly>Cd"`
	SubFamily string      `xml:"BkTxCd>Domn>Fmly>SubFmlyCd"`
	Details   camtDetails `xml:"NtryDtls>TxDtls"`
	More      string      `xml:"AddtlNtryInf,omitempty"`
}

type camtDetails struct {
	EndToEnd  string     `xml:"Refs>EndToEndId,omitempty"`
	ID        string     `xml:"Refs>TxId"`
	Amount    camtAmount `xml:"Amt"`
	Direction string     `xml:"CdtDbtInd"`
	Payer     *camtPayer `xml:"RltdPties"`
	PayerBank string     `xml:"RltdAgts>DbtrAgt>FinInstnId>Nm,omitempty"`
	Text      string     `xml:"RmtInf>Ustrd,omitempty"`
}

type camtPayer struct {
	Name    string       `xml:"Dbtr>Pty>Nm,omitempty"`
	Account *camtPayerID `xml:"DbtrAcct"`
}

type camtPayerID struct {
	Number string `xml:"Id>Othr>Id"`
}

func (s Sheet) camt(message string, number int, at time.Time) camtStatement {
	from, to := s.Filter.From, s.Filter.To
	if from.IsZero() {
		from = time.Unix(0, 0)
		if len(s.Lines) > 0 {
			from = s.Lines[0].Entry.CreatedAt
		}
	}
	switch {
	case to.IsZero() || to.After(at):
		to = at
	case to.After(from):
		// the last second: the end itself is of the time after it, as midnight is of the next day
		if to = to.Add(-time.Second); to.Before(from) {
			to = from
		}
	}
	name := camtText(s.Number, 34)
	name = cmp.Or(name, camtText(s.Ref, 34))
	st := camtStatement{
		ID: message[:26] + "-" + strconv.Itoa(number), Number: number, Made: inLagos(at), From: inLagos(from), To: inLagos(to),
		Account: camtAccount{Number: name, Currency: money.Currency, Name: camtText(s.Holder, 70), Owner: camtText(s.Tenant, 140), Bank: camtText(s.Bank, 140)},
	}
	closing := s.Standing
	for _, l := range s.Lines {
		e := l.Entry
		st.Entries = append(st.Entries, camtOf(e))
		switch {
		case e.Status == ledger.NeedsReview:
		case e.Direction == ledger.Credit:
			closing = closing.Add(e.Amount)
		default:
			closing = closing.Sub(e.Amount)
		}
	}
	st.Balances = []camtBalance{balanceOf("OPBD", s.Standing, from), balanceOf("CLBD", closing, to)}
	return st
}

func balanceOf(code string, a money.Amount, at time.Time) camtBalance {
	direction := "CRDT"
	if a.Sign() < 0 {
		a, direction = a.Neg(), "DBIT"
	}
	return camtBalance{Code: code, Amount: camtNaira(a), Direction: direction, At: inLagos(at)}
}

func camtNaira(a money.Amount) camtAmount { return camtAmount{money.Currency, a.String()} }

// camtOf is a line of a statement. Its codes are those of ISO 20022's external list: a credit
// transfer that came or went, one on our own books, or a fee.
func camtOf(e ledger.Entry) camtEntry {
	direction, family := "CRDT", "RCDT"
	if e.Direction == ledger.Debit {
		direction, family = "DBIT", "ICDT"
	}
	status, sub := "BOOK", "DMCT"
	if e.Status == ledger.NeedsReview {
		status = "PDNG"
	}
	switch e.Kind {
	case ledger.KindFee, ledger.KindPlatformFee:
		sub = "FEES"
	case ledger.KindBookTransfer, ledger.KindSplit, ledger.KindMove:
		sub = "BOOK"
	}
	x := camtEntry{
		Ref: camtID(e.ID), Amount: camtNaira(e.Amount), Direction: direction, Reversal: e.ReversalOf != nil, Status: status, Booked: inLagos(e.CreatedAt),
		BankRef: camtText(e.ProviderTxnRef, 35), Domain: "PMNT", Family: family, SubFamily: sub,
		Details: camtDetails{EndToEnd: camtText(e.SessionID, 35), ID: camtID(e.TransactionGroupID), Amount: camtNaira(e.Amount), Direction: direction, PayerBank: camtText(e.SenderBank, 140), Text: camtText(e.Narration, 140)},
		More:    strings.ReplaceAll(string(e.Status), "_", " "),
	}
	if e.TransferRef != nil {
		x.Details.EndToEnd = camtText(*e.TransferRef, 35)
	}
	if e.SenderName != "" || e.SenderAccount != "" {
		x.Details.Payer = &camtPayer{Name: camtText(e.SenderName, 140)}
		if account := camtText(e.SenderAccount, 34); account != "" {
			x.Details.Payer.Account = &camtPayerID{account}
		}
	}
	return x
}

// camtID is an id within the 35 characters that references have.
func camtID(id uuid.UUID) string { return strings.ReplaceAll(id.String(), "-", "") }

// camtText is a text of so many characters at most.
func camtText(s string, most int) string {
	r := []rune(plain(s))
	return strings.TrimSpace(string(r[:min(len(r), most)]))
}
